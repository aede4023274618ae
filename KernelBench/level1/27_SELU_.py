"""Scaled exponential linear unit: y = scale * x where x > 0 and scale * alpha * (exp(x) - 1) elsewhere,
elementwise, with the usual scale 1.0507009873554805 and alpha 1.6732632423543772. x and y are float32 of
shape (batch_size, dim). The inputs are drawn from [0, 1), so only the linear branch is reached.
"""

import torch
import torch.nn as nn

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise SELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.selu(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
