"""Packs weights when it is built, and again when they are loaded."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gn = torch.nn.GroupNorm(num_groups, num_features)
        self.num_groups = num_groups
        self.pack()

    def pack(self):
        self.version = (self.gn.weight._version, self.gn.bias._version)
        self.packed = torch.stack([self.gn.weight, self.gn.bias])

    def forward(self, x):
        if self.packed.device != x.device or self.version != (self.gn.weight._version, self.gn.bias._version):
            self.pack()
        return torch.nn.functional.group_norm(x, self.num_groups, self.packed[0], self.packed[1])
