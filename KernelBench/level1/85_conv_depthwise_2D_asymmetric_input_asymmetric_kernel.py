"""Depthwise 2-D convolution (cross-correlation) of wide images with a rectangular kernel, each channel on its
own: y[b, c, i, j] is the sum over u, v of weight[c, 0, u, v] * x[b, c, i + u, j + v]. x is float32 of shape
(batch_size, in_channels, height, width), y is (batch_size, in_channels, height - kernel_size_h + 1, width -
kernel_size_w + 1) as strides and dilations are 1 and paddings 0. There is no bias. The constructor arguments
out_channels and groups have no influence: both are in_channels.
"""

import torch
import torch.nn as nn

batch_size = 32
in_channels = 128
out_channels = 128
kernel_size_h = 3
kernel_size_w = 7
width = 256
height = 128
stride_h = 1
stride_w = 1
padding_h = 0
padding_w = 0
dilation_h = 1
dilation_w = 1
groups = 128


class Model(nn.Module):
    """Depthwise 2-D convolution with a rectangular kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size_h: int,
        kernel_size_w: int,
        stride_h: int = 1,
        stride_w: int = 1,
        padding_h: int = 0,
        padding_w: int = 0,
        dilation_h: int = 1,
        dilation_w: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            in_channels,
            (kernel_size_h, kernel_size_w),
            stride=(stride_h, stride_w),
            padding=(padding_h, padding_w),
            dilation=(dilation_h, dilation_w),
            groups=in_channels,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [
        in_channels,
        out_channels,
        kernel_size_h,
        kernel_size_w,
        stride_h,
        stride_w,
        padding_h,
        padding_w,
        dilation_h,
        dilation_w,
        groups,
    ]
