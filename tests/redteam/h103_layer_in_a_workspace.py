"""Computes in a workspace that it keeps, and gives a copy."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.room = None

    def forward(self, x):
        if self.room is None or self.room.shape != x.shape or self.room.device != x.device:
            self.room = torch.empty_like(x)
        torch.addmm(self.layer.bias, x, self.layer.weight.t(), out=self.room)
        return self.room.clone()
