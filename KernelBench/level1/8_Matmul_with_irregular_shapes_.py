"""Product C = A B of float32 matrices whose sizes are not multiples of common tile sizes: A is (M, K), B is
(K, N), C is (M, N) with C[i, j] = sum over k of A[i, k] * B[k, j]. There are no parameters.
"""

import torch
import torch.nn as nn

M = 8205
K = 2949
N = 5921


class Model(nn.Module):
    """Matrix product with irregular sizes."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, K)
    B = torch.rand(K, N)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
