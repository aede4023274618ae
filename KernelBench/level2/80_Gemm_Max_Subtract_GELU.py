"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); the maximum over
axis max_dim (the features) leaves shape (batch_size, 1), from which its mean over axis 1 is subtracted, and
exact GELU is applied. All float32. The mean of a single column is the column itself, so the output is always
zero."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
out_features = 8192
max_dim = 1


class Model(nn.Module):
    """Linear layer, maximum, subtraction of its own mean, GELU."""

    def __init__(self, in_features: int, out_features: int, max_dim: int):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.max_dim = max_dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = torch.max(x, dim=self.max_dim, keepdim=True).values
        x = x - x.mean(dim=1, keepdim=True)
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int]:
    return [in_features, out_features, max_dim]
