"""Batched matrix product, C[b] = A[b] B[b] independently for every b. A is (batch_size, m, k), B is
(batch_size, k, n) and C is (batch_size, m, n), all float32; there are no parameters.
"""

import torch
import torch.nn as nn

batch_size = 128
m = 512
k = 1024
n = 2048


class Model(nn.Module):
    """One matrix product per batch entry."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.bmm(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(batch_size, m, k)
    B = torch.rand(batch_size, k, n)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
