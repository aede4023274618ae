"""Huber loss with threshold 1, averaged over all elements: with d = predictions - targets, d^2 / 2 where |d|
< 1 and |d| - 1 / 2 elsewhere. Both inputs are float32 of shape (batch_size, *input_shape), the result is one
float32 scalar. The predictions are scaled by one random number in [0, 1), which is drawn first. The constant
dim is not used.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Mean Huber loss."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(predictions, targets)


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(())
    predictions = torch.rand(batch_size, *input_shape) * scale
    targets = torch.rand(batch_size, *input_shape)
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    return []
