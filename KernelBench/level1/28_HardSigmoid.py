"""Hard sigmoid, y = x / 6 + 1 / 2 clamped to [0, 1], elementwise. x and y are float32 of shape (batch_size,
dim).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise hard sigmoid."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
