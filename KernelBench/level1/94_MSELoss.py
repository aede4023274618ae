"""Mean squared error, the mean over all elements of (predictions - targets)^2. Both inputs are float32 of
shape (batch_size, *input_shape), the result is one float32 scalar. The predictions are scaled by one random
number in [0, 1), which is drawn first. The constant dim is not used.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Mean squared error."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean((predictions - targets) ** 2)


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(())
    predictions = torch.rand(batch_size, *input_shape) * scale
    targets = torch.rand(batch_size, *input_shape)
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    return []
