"""1-D transposed convolution: each x[b, c, i] adds weight[c, o, u] * x[b, c, i] to y[b, o, i + u] for every o
and u. x is float32 of shape (batch_size, in_channels, length), y is (batch_size, out_channels, length +
kernel_size - 1). The stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 128
out_channels = 128
kernel_size = 3
length = 65536


class Model(nn.Module):
    """1-D transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1d_transpose(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, length)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
