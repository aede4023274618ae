"""1-D convolution (cross-correlation): y[b, o, i] is the sum over c and u of weight[o, c, u] *
x[b, c, i + u]. x is float32 of shape (batch_size, in_channels, length), y is (batch_size, out_channels,
length - kernel_size + 1). The stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 32
in_channels = 64
out_channels = 128
kernel_size = 3
length = 131072


class Model(nn.Module):
    """1-D convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1d = nn.Conv1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, length)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
