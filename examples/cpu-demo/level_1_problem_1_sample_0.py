"""Square matrix product as the transpose of B^T A^T: on a CPU the library packs the operands the other way."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Matrix product by the reordered operands."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return torch.mm(B.t(), A.t()).t().contiguous()
