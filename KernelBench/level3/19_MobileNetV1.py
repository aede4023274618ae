"""MobileNet v1 with width multiplier alpha: a 3x3 stride-2 convolution, batch norm and ReLU, thirteen
depthwise-separable units (3x3 depthwise then 1x1 convolution, each with batch norm and ReLU, no biases), 7x7
average pooling and a linear layer; batch norm uses the statistics of the batch (training mode); x has shape
(batch_size, input_channels, height, width), the logits have shape (batch_size, num_classes), float32.
"""

import torch
import torch.nn as nn

batch_size = 10
input_channels = 3
height = 224
width = 224
num_classes = 1000
alpha = 1.0


def convolution(in_channels, out_channels, stride):
    """3x3 convolution, batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


def separable_convolution(in_channels, out_channels, stride):
    """Depthwise 3x3 then pointwise convolution, each with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(
            in_channels, in_channels, kernel_size=3, stride=stride, padding=1, groups=in_channels, bias=False
        ),
        nn.BatchNorm2d(in_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


class Model(nn.Module):
    """The MobileNet v1 classifier."""

    def __init__(self, num_classes=1000, input_channels=3, alpha=1.0):
        super().__init__()
        units = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
        units += [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
        channels = int(32 * alpha)
        layers = [convolution(input_channels, channels, stride=2)]
        for unit_channels, stride in units:
            out_channels = int(unit_channels * alpha)
            layers.append(separable_convolution(channels, out_channels, stride))
            channels = out_channels
        layers.append(nn.AvgPool2d(7))
        self.model = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.model(x)
        return self.fc(x.view(x.size(0), -1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_channels, height, width)]


def get_init_inputs() -> list[int | float]:
    return [num_classes, input_channels, alpha]
