"""Batch norm folded into a scale and shift of its running statistics, though the reference takes the batch's.

kind: wrong
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


def folded(bn, x):
    scale = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    shift = bn.bias - bn.running_mean * scale
    return x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)


class ModelNew(nn.Module):
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

    def forward(self, x):
        out = F.relu(folded(self.bn1, self.conv1(x)))
        out = folded(self.bn2, self.conv2(out))
        return F.relu(out + folded(self.downsample[1], self.downsample[0](x)))
