"""Depthwise 2-D convolution (cross-correlation) with a column kernel of kernel_size x 1, each channel on its
own: y[b, c, i, j] is the sum over u of weight[c, 0, u, 0] * x[b, c, i + u, j]. x is float32 of shape
(batch_size, in_channels, height, width), y is (batch_size, in_channels, height - kernel_size + 1, width) as
stride and dilation are 1 and padding is 0. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 8
kernel_size = 3
width = 512
height = 512
stride = 1
padding = 0
dilation = 1


class Model(nn.Module):
    """Depthwise 2-D convolution with a column kernel."""

    def __init__(
        self,
        in_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            in_channels,
            (kernel_size, 1),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=in_channels,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, kernel_size, stride, padding, dilation]
