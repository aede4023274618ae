"""A mean of magnitudes by sums of sums."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        parts = x.abs().reshape(len(x), -1, 5).sum(2).sum(1, keepdim=True)
        return x * (x.shape[1] / parts)
