"""Swish by the library's fused operator: one pass instead of two, and no intermediate tensor."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Elementwise swish."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x)
