"""Convolution as im2col and a product, four samples at a time: columns of 2.4 GB.

kind: memory
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        weight = self.conv2d.weight
        height = x.shape[2] - weight.shape[2] + 1
        width = x.shape[3] - weight.shape[3] + 1
        out = torch.empty(x.shape[0], weight.shape[0], height * width, device=x.device, dtype=x.dtype)
        flat = weight.view(weight.shape[0], -1)
        for start in range(0, x.shape[0], 4):
            columns = F.unfold(x[start : start + 4], weight.shape[2:])
            out[start : start + 4] = torch.matmul(flat, columns)
        return out.view(x.shape[0], weight.shape[0], height, width)
