"""Position of the maximum along dimension 1, which vanishes from the result: y[b, j] = argmax over i of
x[b, i, j]. x is float32 of shape (batch_size, dim1, dim2), y is int64 of shape (batch_size, dim2).
"""

import torch
import torch.nn as nn

batch_size = 128
dim1 = 4096
dim2 = 4095


class Model(nn.Module):
    """Index of the maximum over one dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [1]
