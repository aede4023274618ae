"""Product C = A B of two square float32 matrices, C[i, j] = sum over k of A[i, k] * B[k, j]. A, B and C are
(N, N); nothing is transposed and there are no parameters.
"""

import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    """Square matrix product."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(N, N)
    B = torch.rand(N, N)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
