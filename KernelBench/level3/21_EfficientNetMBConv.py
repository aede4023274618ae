"""A mobile inverted bottleneck without squeeze-and-excitation: a 1x1 expansion by expand_ratio and a
kernel_size depthwise convolution with the given stride, each with batch norm and ReLU6, then a 1x1 projection
with batch norm, and x added when stride and channels allow it (not with these sizes); batch norm uses the
statistics of the batch (training mode); x has shape (batch_size, in_channels, 224, 224), the result
(batch_size, out_channels, 224 / stride, 224 / stride), float32.
"""

import torch
import torch.nn as nn

batch_size = 10
in_channels = 112
out_channels = 192
kernel_size = 5
stride = 2
expand_ratio = 6


class Model(nn.Module):
    """An MBConv block: expand, filter depthwise, project, and add the input if shapes match."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio):
        super().__init__()
        self.use_residual = stride == 1 and in_channels == out_channels
        hidden = in_channels * expand_ratio
        if expand_ratio != 1:
            self.expand_conv = nn.Sequential(
                nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
                nn.BatchNorm2d(hidden),
                nn.ReLU6(inplace=True),
            )
        padding = (kernel_size - 1) // 2
        self.depthwise_conv = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel_size, stride, padding, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
        )
        self.project_conv = nn.Sequential(
            nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x):
        out = self.expand_conv(x) if hasattr(self, "expand_conv") else x
        out = self.project_conv(self.depthwise_conv(out))
        return out + x if self.use_residual else out


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, 224, 224)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, expand_ratio]
