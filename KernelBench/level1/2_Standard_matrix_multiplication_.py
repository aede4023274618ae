"""Product C = A B of two rectangular float32 matrices, C[i, j] = sum over k of A[i, k] * B[k, j]. A is (M,
K), B is (K, N), C is (M, N); there are no parameters.
"""

import torch
import torch.nn as nn

M = 2048
K = 8192
N = 4096


class Model(nn.Module):
    """Matrix product."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, K)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
