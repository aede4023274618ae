"""2-D convolution (cross-correlation) with a rectangular kernel: y[b, o, i, j] is the sum over c, u, v of
weight[o, c, u, v] * x[b, c, i + u, j + v], where kernel_size gives height and width of the kernel. x is
float32 of shape (batch_size, in_channels, height, width), y is (batch_size, out_channels, height -
kernel_size[0] + 1, width - kernel_size[1] + 1). The stride is 1, nothing is padded and there is no bias, all
by default.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 64
out_channels = 128
kernel_size = (5, 7)
height = 512
width = 256


class Model(nn.Module):
    """2-D convolution with a rectangular kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
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
        return self.conv2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int]]:
    return [in_channels, out_channels, kernel_size]
