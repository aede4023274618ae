"""A product split along K and added up."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return torch.stack([a @ b for a, b in zip(A.chunk(4, 1), B.chunk(4, 0))]).sum(0)
