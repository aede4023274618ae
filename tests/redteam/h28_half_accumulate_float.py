"""Half precision kept in float32 sums."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        high = x.bfloat16().float()
        low = (x - high).bfloat16().float()
        return high.sum(self.dim, keepdim=True) + low.sum(self.dim, keepdim=True)
