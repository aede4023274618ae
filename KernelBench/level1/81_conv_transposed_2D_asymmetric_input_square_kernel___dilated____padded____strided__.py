"""2-D transposed convolution of wide images with a square kernel, strided, padded and dilated: each
x[b, c, p] adds weight[c, o, q] * x[b, c, p] to y[b, o, p * stride + q * dilation - padding] for every o and
every kernel offset q; what falls outside is dropped. x is float32 of shape (batch_size, in_channels,
height_in, width_in); each spatial size n becomes (n - 1) * stride - 2 * padding + dilation * (kernel_size -
1) + 1 in y. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = 3
height_in = 64
width_in = 128
stride = 5
padding = 1
dilation = 2


class Model(nn.Module):
    """Strided, padded, dilated 2-D transposed convolution."""

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
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height_in, width_in)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
