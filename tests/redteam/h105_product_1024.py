"""A product as the library does it."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return A @ B
