"""A two-pass sum: pass one adds within chunks, pass two adds the chunks. No shortcuts: pass means a sweep here."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        # pass one
        parts = [part.sum(self.dim, keepdim=True) for part in x.chunk(4, self.dim)]
        # pass two
        return torch.stack(parts).sum(0)
