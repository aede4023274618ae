"""Hinge loss, the mean over all elements of max(1 - predictions * targets, 0). predictions is float32 of
shape (batch_size, *input_shape), targets is a float32 vector of -1 and +1 of length batch_size, the result is
one float32 scalar. The vector broadcasts along the last dimension, so that targets belong to columns, not
rows: batch_size must equal input_shape[0]. The constant dim is not used.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Mean hinge loss."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


def get_inputs() -> list[torch.Tensor]:
    predictions = torch.rand(batch_size, *input_shape)
    targets = torch.randint(0, 2, (batch_size,)).float() * 2 - 1
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    return []
