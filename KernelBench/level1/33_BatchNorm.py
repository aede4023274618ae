"""Batch normalisation of images: y = (x - mean) / sqrt(var + 1e-5) * weight + bias, with mean and biased
variance of each channel over the batch and both spatial dimensions. x and y are float32 of shape (batch_size,
features, dim1, dim2); weight (ones) and bias (zeros) have length features. The module stays in training mode:
batch statistics are used and each call also updates the running statistics.
"""

import torch
import torch.nn as nn

batch_size = 64
features = 64
dim1 = 512
dim2 = 512


class Model(nn.Module):
    """Batch normalisation over channels, in training mode."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [features]
