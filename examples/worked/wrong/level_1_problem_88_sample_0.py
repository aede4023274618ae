"""A mistake that looks right: x * sigmoid(1.702 x) is another approximation of GELU, off in the second digit."""

import torch
from torch import nn


class ModelNew(nn.Module):
    """Elementwise GELU, but not the one that the problem asks for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)
