"""A ShuffleNet v1 whose units never downsample: a 3x3 stride-2 convolution to 24 channels, batch norm, ReLU
and max pooling, three stages of 3, 7 and 3 shuffle units with 240, 480 and 960 channels, a 1x1 convolution to
1024 channels with batch norm and ReLU, global average pooling and a linear layer; batch norm uses the
statistics of the batch (training mode); x has shape (batch_size, input_channels, height, width), the logits
have shape (batch_size, num_classes), float32. The units' in-place sums overwrite ReLU outputs, so the network
cannot be differentiated.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
input_channels = 3
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


class ShuffleNetUnit(nn.Module):
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


class Model(nn.Module):
    """A ShuffleNet v1 classifier with stride 1 in all units."""

    def __init__(
        self, num_classes=1000, groups=3, stages_repeats=[3, 7, 3], stages_out_channels=[24, 240, 480, 960]
    ):
        super().__init__()
        stem, *widths = stages_out_channels
        self.conv1 = nn.Conv2d(3, stem, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.stage2 = self._stage(stem, widths[0], stages_repeats[0], groups)
        self.stage3 = self._stage(widths[0], widths[1], stages_repeats[1], groups)
        self.stage4 = self._stage(widths[1], widths[2], stages_repeats[2], groups)
        self.conv5 = nn.Conv2d(widths[2], 1024, kernel_size=1, bias=False)
        self.bn5 = nn.BatchNorm2d(1024)
        self.fc = nn.Linear(1024, num_classes)

    @staticmethod
    def _stage(in_channels, out_channels, repeats, groups):
        units = [ShuffleNetUnit(in_channels, out_channels, groups)]
        units += [ShuffleNetUnit(out_channels, out_channels, groups) for _ in range(repeats - 1)]
        return nn.Sequential(*units)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.stage4(self.stage3(self.stage2(x)))
        x = F.relu(self.bn5(self.conv5(x)))
        x = F.adaptive_avg_pool2d(x, (1, 1))
        return self.fc(x.view(x.size(0), -1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [num_classes]
