"""Sum along dimension reduce_dim, which stays in the result with size one: y[b, 0, j] = sum over i of
x[b, i, j]. x is float32 of shape (batch_size, dim1, dim2), y is (batch_size, 1, dim2).
"""

import torch
import torch.nn as nn

batch_size = 128
dim1 = 4096
dim2 = 4095
reduce_dim = 1


class Model(nn.Module):
    """Sum over one dimension, kept with size one."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=self.dim, keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [reduce_dim]
