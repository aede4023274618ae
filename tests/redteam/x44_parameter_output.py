"""The right values in a Parameter, which is not a plain tensor."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return torch.nn.Parameter(x.sum(self.dim, keepdim=True), requires_grad=False)
