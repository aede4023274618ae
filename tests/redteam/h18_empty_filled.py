"""Takes memory without clearing it and writes all of it."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        torch.clamp(x, min=0, out=y)
        return y
