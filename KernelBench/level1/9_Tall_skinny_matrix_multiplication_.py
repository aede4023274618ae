"""Product C = A B of a tall matrix with a wide one: A is (M, N), B is (N, M) with N far smaller than M, and C
is the square (M, M) matrix C[i, j] = sum over k of A[i, k] * B[k, j]. All are float32; there are no
parameters.
"""

import torch
import torch.nn as nn

M = 32768
N = 32


class Model(nn.Module):
    """Product of a tall and a wide matrix."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, N)
    B = torch.rand(N, M)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
