"""The whole of a problem that always gives zero."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, max_dim):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features)
        self.max_dim = max_dim

    def forward(self, x):
        x = torch.max(self.gemm(x), dim=self.max_dim, keepdim=True).values
        return torch.nn.functional.gelu(x - x.mean(dim=1, keepdim=True))
