"""An output without dimensions."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, predictions, targets):
        return (predictions - targets).square().mean()
