"""Sum over one dimension as a product with a row of ones, which the matrix library runs at full speed."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Sum over one dimension, kept with size one."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = x.movedim(self.dim, -2)
        ones = x.new_ones(1, moved.shape[-2])
        return torch.matmul(ones, moved).movedim(-2, self.dim)
