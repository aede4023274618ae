"""Contraction of the last index of a 4-D tensor with a matrix, C[b, i, j, k] = sum over l of A[b, i, j, l] *
B[l, k]. A is (b, i, j, l), B is (l, k) and C is (b, i, j, k), all float32; there are no parameters.
"""

import torch
import torch.nn as nn

b = 8
i = 256
j = 512
l = 256  # noqa: E741
k = 768


class Model(nn.Module):
    """4-D tensor times a shared matrix."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bijl,lk->bijk", A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(b, i, j, l)
    B = torch.rand(l, k)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
