"""The basic residual block with a projected shortcut: two 3x3 convolutions without bias, each followed by
batch normalisation with the statistics of the batch (training mode) and the first also by ReLU, are added to
a 1x1 convolution plus batch normalisation of x, and the sum passes through ReLU; x has shape (batch_size,
in_channels, 224, 224), the result (batch_size, out_channels, 224 / stride, 224 / stride), float32. The
constant num_classes has no influence.
"""

import torch
import torch.nn as nn

in_channels = 3
out_channels = 64
stride = 1
batch_size = 10
num_classes = 1000


class Model(nn.Module):
    """A ResNet basic block whose shortcut is always a 1x1 convolution with batch norm."""

    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.stride = stride

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.downsample(x)
        return self.relu(out)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, 224, 224)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, stride]
