"""NaN where the reference has it."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return (x - 0.5).sqrt()
