"""ResNet-18: a 7x7 stride-2 convolution, batch norm, ReLU and max pooling, four stages of two basic residual
blocks with 64, 128, 256 and 512 channels (each stage but the first halves the map and projects its first
shortcut), global average pooling and a linear layer; batch norm uses the statistics of the batch (training
mode); x has shape input_shape, the logits have shape (batch_size, num_classes), float32. A stage's shortcut
projection is built before its blocks, which fixes the order of random draws.
"""

import torch
import torch.nn as nn

batch_size = 2
num_classes = 1000
input_shape = (batch_size, 3, 224, 224)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and an identity or projected shortcut."""

    expansion = 1

    def __init__(self, in_channels, out_channels, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = downsample

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Model(nn.Module):
    """The ResNet-18 classifier."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.in_channels = 64
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(64, blocks=2, stride=1)
        self.layer2 = self._stage(128, blocks=2, stride=2)
        self.layer3 = self._stage(256, blocks=2, stride=2)
        self.layer4 = self._stage(512, blocks=2, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * BasicBlock.expansion, num_classes)

    def _stage(self, channels, blocks, stride):
        """Build one stage; only its first block changes the resolution and the width."""
        width = channels * BasicBlock.expansion
        downsample = None
        if stride != 1 or self.in_channels != width:
            downsample = nn.Sequential(
                nn.Conv2d(self.in_channels, width, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(width),
            )
        layers = [BasicBlock(self.in_channels, channels, stride, downsample)]
        self.in_channels = width
        layers += [BasicBlock(width, channels) for _ in range(blocks - 1)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(input_shape)]


def get_init_inputs() -> list[int]:
    return [num_classes]
