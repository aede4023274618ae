"""Works in place in memory of its own."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y.relu_()
        return y.mul_(1.0)
