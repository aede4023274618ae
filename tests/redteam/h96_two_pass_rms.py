"""Root mean squares by way of a norm."""

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        size = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return x * torch.rsqrt(size.square() / x.shape[1] + self.eps)
