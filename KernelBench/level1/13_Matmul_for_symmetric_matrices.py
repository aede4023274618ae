"""Product C = A B of two symmetric float32 matrices of shape (N, N). The symmetry lies in the inputs alone:
each is the mean of a uniform draw and its transpose. C is not symmetric in general, and there are no
parameters.
"""

import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    """Product of two symmetric matrices."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.matmul(A, B)


def get_inputs() -> list[torch.Tensor]:
    A = torch.rand(N, N)
    A = (A + A.T) / 2
    B = torch.rand(N, N)
    B = (B + B.T) / 2
    return [A, B]


def get_init_inputs() -> list[object]:
    return []
