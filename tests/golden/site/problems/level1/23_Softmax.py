"""Softmax along each row: y[b, j] = exp(x[b, j]) / sum over k of exp(x[b, k]). x and y are float32 of shape
(batch_size, dim); every row of y sums to one.
"""

import torch
import torch.nn as nn

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Softmax over dimension 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
