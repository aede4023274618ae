"""Softplus, y = log(1 + exp(x)) elementwise, taken as y = x where x is above 20. x and y are float32 of shape
(batch_size, dim).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
dim = 393216


class Model(nn.Module):
    """Elementwise softplus."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softplus(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs() -> list[object]:
    return []
