"""Group norm in a Python loop over groups, with means and variances of slices.

kind: loops
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gn = nn.GroupNorm(num_groups, num_features)

    def forward(self, x):
        out = torch.empty_like(x)
        size = x.shape[1] // self.gn.num_groups
        for g in range(self.gn.num_groups):
            channels = slice(g * size, (g + 1) * size)
            part = x[:, channels]
            mean = part.mean(dim=(1, 2, 3), keepdim=True)
            centred = part - mean
            variance = (centred * centred).mean(dim=(1, 2, 3), keepdim=True)
            scale = self.gn.weight[channels].view(1, -1, 1, 1)
            shift = self.gn.bias[channels].view(1, -1, 1, 1)
            out[:, channels] = centred * torch.rsqrt(variance + self.gn.eps) * scale + shift
        return out
