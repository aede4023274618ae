"""Instance normalisation of images: y = (x - mean) / sqrt(var + 1e-5) with mean and biased variance of each
(sample, channel) plane. x and y are float32 of shape (batch_size, features, dim1, dim2). There are neither
parameters nor running statistics.
"""

import torch
import torch.nn as nn

batch_size = 112
features = 64
dim1 = 512
dim2 = 512


class Model(nn.Module):
    """Instance normalisation without parameters."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inorm(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[int]:
    return [features]
