"""Hard tanh, y = x clamped to [-1, 1], elementwise. x and y are float32 of shape (batch_size, dim). The
inputs are drawn from [0, 1), so on them the function is the identity.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise hard tanh."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(x, min_val=-1.0, max_val=1.0)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
