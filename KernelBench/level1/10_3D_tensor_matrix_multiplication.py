"""Product of a stack of matrices with one shared matrix, C[n] = A[n] B for every n. A is (N, M, K), B is (K,
L) and C is (N, M, L), all float32; there are no parameters.
"""

import torch
import torch.nn as nn

N = 16
M = 1024
K = 2048
L = 768


class Model(nn.Module):
    """3-D tensor times a shared matrix."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(N, M, K)
    B = torch.rand(K, L)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
