"""A mean by a product with a row of equal weights."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        moved = x.movedim(self.dim, -1)
        return moved @ x.new_full((moved.shape[-1],), 1 / moved.shape[-1])
