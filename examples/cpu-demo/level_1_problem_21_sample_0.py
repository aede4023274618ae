"""Never returns, on purpose: shows how a kernel that hangs is stopped and reported."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Waits for a value that never comes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            pass
