"""A norm of scaled elements, which cannot overflow."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        most = x.abs().max()
        scaled = x / most
        return scaled / scaled.square().sum().sqrt()
