"""The product block by block of columns."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return torch.cat([A @ part for part in B.split(100, dim=1)], dim=1)
