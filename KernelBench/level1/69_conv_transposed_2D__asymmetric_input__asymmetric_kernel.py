"""2-D transposed convolution of wide images with a rectangular kernel: each x[b, c, i, j] adds
weight[c, o, u, v] * x[b, c, i, j] to y[b, o, i + u, j + v] for every o, u, v, where kernel_size gives height
and width of the kernel. x is float32 of shape (batch_size, in_channels, height_in, width_in), y is
(batch_size, out_channels, height_in + kernel_size[0] - 1, width_in + kernel_size[1] - 1). The stride is 1,
nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 64
out_channels = 128
kernel_size = (3, 5)
height_in = 128
width_in = 256


class Model(nn.Module):
    """2-D transposed convolution with a rectangular kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        output_padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
            dilation=dilation,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height_in, width_in)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int]]:
    return [in_channels, out_channels, kernel_size]
