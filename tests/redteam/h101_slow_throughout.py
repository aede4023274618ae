"""A softmax row by row, some hundred times as slow as the reference: honest, and called seldom."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        for row in range(x.shape[0]):
            for _ in range(300):
                torch.softmax(x[row], dim=0)
            out[row] = torch.softmax(x[row], dim=0)
        return out
