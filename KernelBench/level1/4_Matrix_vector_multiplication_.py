"""Matrix times column vector, C[i, 0] = sum over k of A[i, k] * B[k, 0]. A is (M, K), B is (K, 1) and C is
(M, 1), all float32: the trailing dimension of size one is kept. There are no parameters.
"""

import torch
import torch.nn as nn

M = 2048
K = 1048576


class Model(nn.Module):
    """Matrix-vector product with the vector as a column."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, K)
    B = torch.rand(K, 1)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
