"""An output in channels-last order."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gn = torch.nn.GroupNorm(num_groups, num_features)

    def forward(self, x):
        return self.gn(x).contiguous(memory_format=torch.channels_last)
