"""A tuple of outputs."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        values, at = torch.topk(x, 1, dim=1)
        return values, (x.amin(1), at)
