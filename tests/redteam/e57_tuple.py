"""A tuple's first output right, the others garbage."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        largest = x.max(1, keepdim=True).values
        return largest, (torch.zeros_like(largest[:, 0]), torch.zeros_like(largest, dtype=torch.int64))
