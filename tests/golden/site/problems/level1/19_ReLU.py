"""Rectified linear unit, y = max(x, 0) elementwise. x and y are float32 of shape (batch_size, dim). The
inputs are drawn from [0, 1), so on them the function is the identity.
"""

import torch
import torch.nn as nn

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise ReLU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
