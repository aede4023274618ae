"""3-D transposed convolution of cubic volumes: each x[b, c, p] adds weight[c, o, q] * x[b, c, p] to
y[b, o, p + q] for every o and every kernel offset q, with a kernel of kernel_depth x kernel_width x
kernel_height. x is float32 of shape (batch_size, in_channels, depth, width, height) in this order; each
spatial size grows by its kernel size less one in y. The stride is 1, nothing is padded and there is no bias,
all by default.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
kernel_depth = 3
kernel_width = 5
kernel_height = 5
depth = 64
width = 64
height = 64


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
    x = torch.rand(batch_size, in_channels, depth, width, height)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int, int]]:
    return [in_channels, out_channels, (kernel_depth, kernel_width, kernel_height)]
