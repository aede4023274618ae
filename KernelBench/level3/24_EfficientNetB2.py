"""A network in the manner of EfficientNet-B2 in which the squeeze-and-excitation gate replaces the feature
map instead of scaling it, so that every map after the first bottleneck is 1x1: a 3x3 stride-2 convolution,
five bottlenecks, a 1x1 convolution to 1408 channels, global average pooling and a linear layer, with batch
norm and ReLU; batch norm uses the statistics of the batch (training mode), here of only batch_size values per
channel, which makes the result numerically ill-conditioned; x has shape (batch_size, 3, 224, 224), the logits
have shape (batch_size, num_classes), float32.
"""

import torch
import torch.nn as nn

batch_size = 2
num_classes = 1000


def bottleneck(in_channels, out_channels, stride, expand_ratio):
    """Expand, filter depthwise, pool to a sigmoid gate and project the gate itself."""
    hidden = in_channels * expand_ratio
    squeezed = hidden // 4
    return nn.Sequential(
        nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU(inplace=True),
        nn.Conv2d(hidden, hidden, kernel_size=3, stride=stride, padding=1, groups=hidden, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Conv2d(hidden, squeezed, kernel_size=1, bias=False),
        nn.ReLU(inplace=True),
        nn.Conv2d(squeezed, hidden, kernel_size=1, bias=False),
        nn.Sigmoid(),
        nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
        nn.BatchNorm2d(out_channels),
    )


class Model(nn.Module):
    """A classifier of five chained bottlenecks that pass on only their gates."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(32)
        self.relu = nn.ReLU(inplace=True)
        self.mbconv1 = bottleneck(32, 96, stride=1, expand_ratio=3)
        self.mbconv2 = bottleneck(96, 144, stride=2, expand_ratio=6)
        self.mbconv3 = bottleneck(144, 192, stride=2, expand_ratio=6)
        self.mbconv4 = bottleneck(192, 288, stride=2, expand_ratio=6)
        self.mbconv5 = bottleneck(288, 384, stride=1, expand_ratio=6)
        self.conv_final = nn.Conv2d(384, 1408, kernel_size=1, bias=False)
        self.bn_final = nn.BatchNorm2d(1408)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(1408, num_classes)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.mbconv1(x)
        x = self.mbconv2(x)
        x = self.mbconv3(x)
        x = self.mbconv4(x)
        x = self.mbconv5(x)
        x = self.relu(self.bn_final(self.conv_final(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 3, 224, 224)]


def get_init_inputs() -> list[int]:
    return [num_classes]
