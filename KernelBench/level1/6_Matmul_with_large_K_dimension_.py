"""Product C = A B with a very long reduction: C[i, j] = sum over k < K of A[i, k] * B[k, j] with K far larger
than M and N. A is (M, K), B is (K, N), C is (M, N), all float32; there are no parameters.
"""

import torch
import torch.nn as nn

M = 256
N = 256
K = 524288


class Model(nn.Module):
    """Matrix product with a long inner dimension."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, K)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
