"""The upper triangle of a square matrix; zeros below."""

import torch

N = 3000


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.triu(x)


def get_inputs():
    return [torch.rand(N, N)]


def get_init_inputs():
    return []
