"""Three products that together take less than to deliver what comes out, computed when they should be."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return A @ B @ A @ B
