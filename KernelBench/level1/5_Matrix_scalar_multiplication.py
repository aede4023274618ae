"""Scaling of a matrix, C = s A elementwise. A and C are float32 of shape (M, N); s is a plain Python float,
not a tensor, and is the second argument of forward.
"""

import torch
import torch.nn as nn

M = 65536
N = 16384


class Model(nn.Module):
    """Matrix times scalar."""

    def forward(self, A: torch.Tensor, s: float) -> torch.Tensor:
        return A * s


def get_inputs() -> list[torch.Tensor | float]:
    A = torch.rand(M, N)
    s = 3.14
    return [A, s]


def get_init_inputs() -> list[object]:
    return []
