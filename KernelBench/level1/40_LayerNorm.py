"""Layer normalisation of each sample: y = (x - mean) / sqrt(var + 1e-5) * weight + bias, with mean and biased
variance over the last three dimensions and a weight (ones) and bias (zeros) of that full shape (features,
dim1, dim2). x and y are float32 of shape (batch_size, features, dim1, dim2). The constructor takes the
normalised shape as a single tuple.
"""

import torch
import torch.nn as nn

batch_size = 16
features = 64
dim1 = 256
dim2 = 256


class Model(nn.Module):
    """Layer normalisation over all dimensions but the batch."""

    def __init__(self, normalized_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[tuple[int, ...]]:
    return [(features, dim1, dim2)]
