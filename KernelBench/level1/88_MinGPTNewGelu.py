"""Gaussian error linear unit in its tanh approximation, y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
x^3))) elementwise, composed of elementary operations. x and y are float32 of shape (batch_size, dim).
"""

import math

import torch
import torch.nn as nn

batch_size = 8192
dim = 8192


class Model(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x * 0.5
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return half * (torch.tanh(inner) + 1.0)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
