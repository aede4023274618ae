"""1-D transposed convolution with dilation: each x[b, c, i] adds weight[c, o, u] * x[b, c, i] to
y[b, o, i * stride + u * dilation - padding] for every o and u. x is float32 of shape (batch_size,
in_channels, length), y is (batch_size, out_channels, (length - 1) * stride - 2 * padding + dilation *
(kernel_size - 1) + 1). There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 32
in_channels = 32
out_channels = 64
kernel_size = 5
length = 131072
stride = 1
padding = 0
dilation = 3


class Model(nn.Module):
    """Dilated 1-D transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1d_transpose(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, length)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
