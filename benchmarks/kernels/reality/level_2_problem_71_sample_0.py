"""The slope of the activation taken from another framework's default: wrong for what is negative.

kind: wrong
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, divisor):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.divisor = divisor

    def forward(self, x):
        return F.leaky_relu(self.conv(x) / self.divisor, negative_slope=0.2)
