"""Root-mean-square normalisation over the channels: at every position of every sample, y = x / sqrt(mean over
channels of x^2 + eps). x and y are float32 of shape (batch_size, features, dim1, dim2). There is no learned
weight, and num_features is kept as an attribute only.
"""

import torch
import torch.nn as nn

batch_size = 112
features = 64
dim1 = 512
dim2 = 512


class Model(nn.Module):
    """RMS normalisation over dimension 1."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rms = torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + self.eps)
        return x / rms


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [features]
