"""The ShuffleNet v1 unit: a grouped 1x1 convolution to out_channels / 4 with batch norm and ReLU, a 3x3
depthwise convolution with batch norm, an exchange of channels between the groups, a grouped 1x1 convolution
to out_channels with batch norm and ReLU, and the shortcut (identity, or a 1x1 convolution with batch norm
when the channel counts differ) added in place at the end, without a last activation; batch norm uses the
statistics of the batch (training mode); x has shape (batch_size, input_channels, height, width), the result
(batch_size, out_channels, height, width), float32. The in-place sum overwrites a ReLU output, so the unit
cannot be differentiated; the constant num_classes has no influence.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
input_channels = 240
out_channels = 480
groups = 3
height = 224
width = 224
num_classes = 1000


class ChannelShuffle(nn.Module):
    """Interleave the channels of the groups."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        batch, channels, height, width = x.shape
        x = x.view(batch, self.groups, channels // self.groups, height, width)
        return x.transpose(1, 2).contiguous().view(batch, -1, height, width)


class Model(nn.Module):
    """Grouped, depthwise and grouped convolutions with a channel shuffle and a shortcut."""

    def __init__(self, in_channels, out_channels, groups=3):
        super().__init__()
        mid_channels = out_channels // 4
        self.conv1 = nn.Conv2d(in_channels, mid_channels, kernel_size=1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(mid_channels)
        self.conv2 = nn.Conv2d(
            mid_channels, mid_channels, kernel_size=3, padding=1, groups=mid_channels, bias=False
        )
        self.bn2 = nn.BatchNorm2d(mid_channels)
        self.conv3 = nn.Conv2d(mid_channels, out_channels, kernel_size=1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shuffle = ChannelShuffle(groups)
        self.shortcut = nn.Sequential()
        if in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.shuffle(self.bn2(self.conv2(out)))
        out = F.relu(self.bn3(self.conv3(out)))
        out += self.shortcut(x)
        return out


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [input_channels, out_channels, groups]
