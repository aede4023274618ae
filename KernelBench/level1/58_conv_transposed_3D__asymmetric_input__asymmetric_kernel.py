"""3-D transposed convolution with a kernel of three different sizes: each x[b, c, p] adds weight[c, o, q] *
x[b, c, p] to y[b, o, p + q] for every o and every kernel offset q. x is float32 of shape (batch_size,
in_channels, depth_in, height_in, width_in); the spatial size n of axis a becomes n + kernel_size[a] - 1 in y.
The stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 16
kernel_size = (3, 5, 7)
depth_in = 16
height_in = 32
width_in = 64


class Model(nn.Module):
    """3-D transposed convolution with a box-shaped kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int] = (1, 1, 1),
        padding: tuple[int, int, int] = (0, 0, 0),
        output_padding: tuple[int, int, int] = (0, 0, 0),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
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
        return self.conv_transpose3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth_in, height_in, width_in)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int, int]]:
    return [in_channels, out_channels, kernel_size]
