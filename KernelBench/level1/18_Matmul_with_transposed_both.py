"""Product C = A^T B^T with both factors stored transposed: A is (K, M), B is (N, K) and C is (M, N) with
C[i, j] = sum over k of A[k, i] * B[j, k]. All are float32; there are no parameters.
"""

import torch
import torch.nn as nn

M = 2048
K = 8192
N = 4096


class Model(nn.Module):
    """Matrix product with A and B transposed."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A.T, B.T)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(K, M)
    B = torch.rand(N, K)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
