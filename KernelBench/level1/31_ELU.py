"""Exponential linear unit: y = x where x > 0 and alpha * (exp(x) - 1) elsewhere, elementwise. x and y are
float32 of shape (batch_size, dim). The inputs are drawn from [0, 1), so on them the function is the identity.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise ELU."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(x, alpha=self.alpha)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[float]:
    return [1.0]
