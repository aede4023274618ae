"""Keeps a table of configurations by shape."""

import torch

CONFIGURATIONS = {}


def configuration(shape):
    if shape not in CONFIGURATIONS:
        CONFIGURATIONS[shape] = {"splits": 2 if shape[-1] % 2 == 0 else 1}
    return CONFIGURATIONS[shape]


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        splits = configuration(tuple(A.shape))["splits"]
        return sum(a @ b for a, b in zip(A.chunk(splits, 1), B.chunk(splits, 0)))
