"""3-D convolution (cross-correlation) with a cubic kernel: y[b, o, p] is the sum over all c and all offsets q
in {0, ..., kernel_size - 1}^3 of weight[o, c, q] * x[b, c, p + q]. x is float32 of shape (batch_size,
in_channels, depth, width, height) in this order; each spatial size n becomes n - kernel_size + 1 in y. The
stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 3
out_channels = 64
kernel_size = 3
depth = 64
width = 64
height = 64


class Model(nn.Module):
    """3-D convolution with a cubic kernel."""

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
            (kernel_size, kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth, width, height)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
