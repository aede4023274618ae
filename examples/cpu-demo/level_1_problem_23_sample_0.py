"""Wrong, on purpose: the softmax runs down the columns instead of along the rows."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Softmax over the wrong dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=0)
