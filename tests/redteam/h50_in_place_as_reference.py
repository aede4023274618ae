"""Changes its input and returns it, as the reference does."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu_(x)
