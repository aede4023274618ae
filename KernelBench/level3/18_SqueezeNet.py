"""SqueezeNet 1.0: an unpadded 7x7 stride-2 convolution with ReLU, eight fire modules (a 1x1 squeeze feeding
parallel 1x1 and 3x3 expansions, all with bias and ReLU) with three ceil-mode 3x3 stride-2 max poolings
between them, then dropout of probability 0, a 1x1 convolution to num_classes, ReLU and global average
pooling; x has shape (batch_size, input_channels, height, width), the logits have shape (batch_size,
num_classes), float32. The first layer is fixed to three input channels.
"""

import torch
import torch.nn as nn

batch_size = 64
input_channels = 3
height = 512
width = 512
num_classes = 1000


class FireModule(nn.Module):
    """A squeezing 1x1 convolution followed by parallel 1x1 and 3x3 expansions."""

    def __init__(self, in_channels, squeeze_channels, expand1x1_channels, expand3x3_channels):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze_channels, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_channels, expand1x1_channels, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_channels, expand3x3_channels, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        squeezed = self.squeeze_activation(self.squeeze(x))
        pointwise = self.expand1x1_activation(self.expand1x1(squeezed))
        spatial = self.expand3x3_activation(self.expand3x3(squeezed))
        return torch.cat([pointwise, spatial], dim=1)


class Model(nn.Module):
    """The SqueezeNet 1.0 classifier."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, kernel_size=7, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            FireModule(96, 16, 64, 64),
            FireModule(128, 16, 64, 64),
            FireModule(128, 32, 128, 128),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            FireModule(256, 32, 128, 128),
            FireModule(256, 48, 192, 192),
            FireModule(384, 48, 192, 192),
            FireModule(384, 64, 256, 256),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            FireModule(512, 64, 256, 256),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.0),
            nn.Conv2d(512, num_classes, kernel_size=1),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [num_classes]
