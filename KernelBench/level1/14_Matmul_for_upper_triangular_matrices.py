"""Product C = A B of two upper triangular float32 matrices of shape (N, N), followed by cutting C to its
upper triangle (main diagonal included). The entries of A and B below the diagonal are zero; there are no
parameters.
"""

import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    """Product of two upper triangular matrices."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.triu(torch.matmul(A, B))


def get_inputs() -> list[torch.Tensor]:
    A = torch.triu(torch.rand(N, N))
    B = torch.triu(torch.rand(N, N))
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
