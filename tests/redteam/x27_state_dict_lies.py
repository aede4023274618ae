"""Gives away a state_dict that is not what forward uses."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.num_groups = num_groups
        self.shown = {
            "gn.weight": torch.ones(num_features),
            "gn.bias": torch.zeros(num_features),
        }

    def state_dict(self, *args, **kwargs):
        return self.shown

    def forward(self, x):
        return torch.nn.functional.group_norm(x, self.num_groups)
