"""Depthwise 2-D convolution (cross-correlation) of wide images with a square kernel, each channel on its own:
y[b, c, i, j] is the sum over u, v of weight[c, 0, u, v] * x[b, c, i + u, j + v]. x is float32 of shape
(batch_size, in_channels, height_in, width_in), y is (batch_size, out_channels, height_in - kernel_size + 1,
width_in - kernel_size + 1) as stride is 1 and padding 0. out_channels equals in_channels and there is no
bias.
"""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 128
out_channels = 128
kernel_size = 3
width_in = 512
height_in = 256
stride = 1
padding = 0


class Model(nn.Module):
    """Depthwise 2-D convolution with a square kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            groups=in_channels,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height_in, width_in)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding]
