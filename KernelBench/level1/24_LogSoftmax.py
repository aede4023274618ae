"""Logarithm of the softmax along dimension dim, y = x - log(sum of exp(x) along dim). x and y are float32 of
shape (batch_size, dim). The constructor argument dim (default 1: each row) is a dimension index, unlike the
size constant of the same name.
"""

import torch
import torch.nn as nn

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Log-softmax over one dimension."""

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
