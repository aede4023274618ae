"""A compensated sum over pieces."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        total = lost = torch.zeros_like(x.narrow(self.dim, 0, 1))
        for part in x.split(64, dim=self.dim):
            step = part.sum(self.dim, keepdim=True) - lost
            new = total + step
            lost = (new - total) - step
            total = new
        return total
