"""3-D transposed convolution with a cubic kernel, strided, padded and dilated: each x[b, c, p] adds
weight[c, o, q] * x[b, c, p] to y[b, o, p * stride + q * dilation - padding] for every o and every kernel
offset q; what falls outside is dropped. x is float32 of shape (batch_size, in_channels, depth, height,
width); each spatial size n becomes (n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 in y.
There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = 3
depth = 16
height = 32
width = 32
stride = 2
padding = 1
dilation = 2


class Model(nn.Module):
    """Strided, padded, dilated 3-D transposed convolution."""

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
        self.conv_transpose3d = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
