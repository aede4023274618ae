"""The inner dimension summed from its end."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return A.flip(0).T @ B.flip(0)
