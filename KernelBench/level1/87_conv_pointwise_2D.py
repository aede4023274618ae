"""Pointwise 2-D convolution, a linear map of the channels at every position: y[b, o, i, j] is the sum over c
of weight[o, c, 0, 0] * x[b, c, i, j]. x is float32 of shape (batch_size, in_channels, height, width), y is
(batch_size, out_channels, height, width). There is no bias. The layer is called conv1d although it is
two-dimensional.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
width = 1024
height = 1024


class Model(nn.Module):
    """1 x 1 convolution over images."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = False) -> None:
        super().__init__()
        self.conv1d = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels]
