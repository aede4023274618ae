"""Infinities where the reference has them."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.where(x < 0.5, float("-inf"), x)
