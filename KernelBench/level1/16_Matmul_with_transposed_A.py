"""Product C = A^T B with the left factor stored transposed: A is (K, M), B is (K, N) and C is (M, N) with
C[i, j] = sum over k of A[k, i] * B[k, j]. All are float32; there are no parameters.
"""

import torch
import torch.nn as nn

M = 2048
K = 8192
N = 4096


class Model(nn.Module):
    """Matrix product with A transposed."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A.T, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(K, M)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
