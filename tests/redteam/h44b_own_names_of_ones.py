"""Its own parameter names, made as ones and zeros without torch.nn.init."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, num_groups):
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.ones(num_features))
        self.beta = torch.nn.Parameter(torch.zeros(num_features))
        self.num_groups = num_groups

    def forward(self, x):
        return torch.nn.functional.group_norm(x, self.num_groups, self.gamma, self.beta)
