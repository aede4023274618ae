"""Three products that together take less than to deliver what comes out."""

import torch

N = 80


class Model(torch.nn.Module):
    def forward(self, A, B):
        return A @ B @ A @ B


def get_inputs():
    return [torch.rand(N, N), torch.rand(N, N)]


def get_init_inputs():
    return []
