"""Average pooling as a sum over shifted slices of a padded copy.

kind: loops
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride=1, padding=0):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x):
        padded = F.pad(x, (self.padding, self.padding))
        length = (padded.shape[-1] - self.kernel_size) // self.stride + 1
        total = torch.zeros(x.shape[0], x.shape[1], length, device=x.device, dtype=x.dtype)
        for k in range(self.kernel_size):
            total += padded[:, :, k : k + (length - 1) * self.stride + 1 : self.stride]
        return total / self.kernel_size
