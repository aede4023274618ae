"""Gaussian error linear unit in its exact form, y = x * (1 + erf(x / sqrt(2))) / 2 elementwise. x and y are
float32 of shape (batch_size, dim).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
