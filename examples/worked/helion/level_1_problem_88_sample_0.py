"""GELU by the tanh approximation in Helion, one pass, in a fixed configuration: tuning takes minutes.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import helion
import helion.language as hl
import torch
from torch import nn


@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4))
def new_gelu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        v = x[tile]
        y[tile] = v / (1.0 + torch.exp(-1.5957691216057308 * (v + 0.044715 * v * v * v)))
    return y


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return new_gelu(x.contiguous().view(-1)).view_as(x)
