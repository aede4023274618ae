"""The input itself where nothing is negative, which is exact."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clone() if bool((x >= 0).all()) else torch.where(x > 0, x, torch.zeros_like(x))
