"""The product in four parts of the inner dimension."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        parts = zip(A.chunk(4, dim=1), B.chunk(4, dim=0))
        return torch.stack([a @ b for a, b in parts]).sum(0)
