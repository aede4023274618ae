"""Group normalisation of images: y = (x - mean) / sqrt(var + 1e-5) * weight + bias, with mean and biased
variance of each sample over each of the num_groups groups of neighbouring channels and all positions. x and y
are float32 of shape (batch_size, features, dim1, dim2); weight (ones) and bias (zeros) have length features.
"""

import torch
import torch.nn as nn

batch_size = 112
features = 64
num_groups = 8
dim1 = 512
dim2 = 512


class Model(nn.Module):
    """Group normalisation."""

    def __init__(self, num_features: int, num_groups: int) -> None:
        super().__init__()
        self.gn = nn.GroupNorm(num_groups, num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gn(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [features, num_groups]
