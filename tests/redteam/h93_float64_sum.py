"""Squares summed in float64."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, predictions, targets):
        return (predictions - targets).square().mean(dtype=torch.float64).float()
