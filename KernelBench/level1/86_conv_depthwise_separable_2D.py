"""Depthwise separable 2-D convolution: a depthwise convolution with a square kernel, each channel on its own,
followed by a 1 x 1 convolution that mixes the channels; both are without bias. x is float32 of shape
(batch_size, in_channels, height, width), y is (batch_size, out_channels, height, width): stride 1 and padding
1 keep the size under a 3 x 3 kernel.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
kernel_size = 3
width = 512
height = 512
stride = 1
padding = 1
dilation = 1


class Model(nn.Module):
    """Depthwise convolution followed by a pointwise one."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(
            in_channels,
            in_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=in_channels,
            bias=bias,
        )
        self.pointwise = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depthwise(x)
        return self.pointwise(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
