"""Leaky rectified linear unit: y = x where x > 0 and negative_slope * x elsewhere, elementwise. x and y are
float32 of shape (batch_size, dim). The slope defaults to 0.01; the inputs are drawn from [0, 1), so on them
the function is the identity.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise leaky ReLU."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x, negative_slope=self.negative_slope)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
