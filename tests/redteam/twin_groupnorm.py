"""Plain group normalisation."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gn = torch.nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x):
        return self.gn(x)
