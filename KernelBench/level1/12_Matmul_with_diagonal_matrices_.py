"""Product C = diag(A) B of a diagonal matrix, given by its diagonal, with a matrix: row r of B is scaled by
A[r]. A is a vector of length N, B and C are (N, M), all float32; there are no parameters and the diagonal
matrix is never formed.
"""

import torch
import torch.nn as nn

M = 4096
N = 4096


class Model(nn.Module):
    """Scale the rows of a matrix by a vector."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return A.unsqueeze(1) * B


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(N)
    B = torch.rand(N, M)
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
