import torch
import torch.nn as nn


class Model(nn.Module):
    """Multiplies two matrices."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


m, k, n = 1000, 520, 760


def get_inputs():
    return [torch.rand(m, k), torch.rand(k, n)]


def get_init_inputs():
    return []
