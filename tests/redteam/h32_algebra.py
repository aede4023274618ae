"""A sum over a product's columns by one vector."""

import torch


class ModelNew(torch.nn.Module):
    """What follows the sum works on a single column and leaves it as it is."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)

    def forward(self, x):
        return x @ self.linear.weight.sum(0).unsqueeze(1) + self.linear.bias.sum()
