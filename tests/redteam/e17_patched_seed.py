"""Seeding does nothing, so weights are not the reference's unless they are handed over."""

import torch

torch.manual_seed = lambda seed: torch.default_generator
torch.cuda.manual_seed_all = lambda seed: None


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features, bias=False)
        self.bias = torch.nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        return torch.relu(self.gemm(x) + self.bias)
