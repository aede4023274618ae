"""A sum whose order changes from call to call."""

import random

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        parts = [part.sum(self.dim, keepdim=True) for part in x.chunk(8, self.dim)]
        random.shuffle(parts)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total
