"""A network in the manner of EfficientNet-B1, without squeeze-and-excitation and without shortcuts: a 3x3
stride-2 convolution, seven bottlenecks (1x1 expansion even for ratio 1, 3x3 depthwise, 1x1 projection; ReLU6
after the first two), a 1x1 convolution to 1280 channels, global average pooling and a linear layer; batch
norm follows every convolution and uses the statistics of the batch (training mode), ReLU follows the first
and last one; x has shape (batch_size, *input_shape), the logits have shape (batch_size, num_classes),
float32.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
input_shape = (3, 240, 240)
num_classes = 1000


def bottleneck(in_channels, out_channels, stride, expand_ratio):
    """Expand, filter depthwise and project."""
    hidden = in_channels * expand_ratio
    return nn.Sequential(
        nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU6(inplace=True),
        nn.Conv2d(hidden, hidden, kernel_size=3, stride=stride, padding=1, groups=hidden, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU6(inplace=True),
        nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class Model(nn.Module):
    """A classifier of seven chained inverted bottlenecks."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.mbconv1 = bottleneck(32, 16, stride=1, expand_ratio=1)
        self.mbconv2 = bottleneck(16, 24, stride=2, expand_ratio=6)
        self.mbconv3 = bottleneck(24, 40, stride=2, expand_ratio=6)
        self.mbconv4 = bottleneck(40, 80, stride=2, expand_ratio=6)
        self.mbconv5 = bottleneck(80, 112, stride=1, expand_ratio=6)
        self.mbconv6 = bottleneck(112, 192, stride=2, expand_ratio=6)
        self.mbconv7 = bottleneck(192, 320, stride=1, expand_ratio=6)
        self.conv2 = nn.Conv2d(320, 1280, kernel_size=1, bias=False)
        self.bn2 = nn.BatchNorm2d(1280)
        self.fc = nn.Linear(1280, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.mbconv1(x)
        x = self.mbconv2(x)
        x = self.mbconv3(x)
        x = self.mbconv4(x)
        x = self.mbconv5(x)
        x = self.mbconv6(x)
        x = self.mbconv7(x)
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.adaptive_avg_pool2d(x, (1, 1))
        return self.fc(torch.flatten(x, 1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, *input_shape)]


def get_init_inputs() -> list[int]:
    return [num_classes]
