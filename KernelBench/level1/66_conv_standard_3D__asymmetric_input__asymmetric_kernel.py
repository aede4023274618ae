"""3-D convolution (cross-correlation) of flat volumes with a kernel of three different sizes: y[b, o, p] is
the sum over all c and all kernel offsets q of weight[o, c, q] * x[b, c, p + q]. x is float32 of shape
(batch_size, in_channels, depth, height, width); the spatial size n of axis a becomes n - kernel_size[a] + 1
in y. The stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 3
out_channels = 64
kernel_size = (3, 5, 7)
depth = 16
height = 128
width = 128


class Model(nn.Module):
    """3-D convolution with a box-shaped kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int] = (1, 1, 1),
        padding: tuple[int, int, int] = (0, 0, 0),
        dilation: tuple[int, int, int] = (1, 1, 1),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv3d = nn.Conv3d(
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
        return self.conv3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth, height, width)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int, int]]:
    return [in_channels, out_channels, kernel_size]
