"""Product C = A B of two lower triangular float32 matrices of shape (M, M), followed by cutting C to its
lower triangle (main diagonal included). The entries of A and B above the diagonal are zero; there are no
parameters.
"""

import torch
import torch.nn as nn

M = 4096


class Model(nn.Module):
    """Product of two lower triangular matrices."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.tril(torch.matmul(A, B))


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(M, M)
    B = torch.rand(M, M)
    return [torch.tril(A), torch.tril(B)]


def get_init_inputs() -> list[object]:
    return []
