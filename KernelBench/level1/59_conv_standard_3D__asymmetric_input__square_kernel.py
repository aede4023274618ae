"""3-D convolution (cross-correlation) with a flat kernel of kernel_size x kernel_size x 1, so that slices
along the last axis do not mix: y[b, o, i, j, d] is the sum over c, u, v of weight[o, c, u, v, 0] *
x[b, c, i + u, j + v, d]. x is float32 of shape (batch_size, in_channels, height, width, depth) in this order;
height and width shrink by kernel_size - 1, depth stays. The stride is 1, nothing is padded and there is no
bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 3
out_channels = 64
kernel_size = 3
width = 256
height = 256
depth = 10


class Model(nn.Module):
    """3-D convolution with a kernel that is flat along the last axis."""

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
        self.conv3d = nn.Conv3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, 1),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width, depth)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
