"""Constants on the device made when it is imported."""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
zero = torch.zeros((), device=device)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.maximum(x, zero)
