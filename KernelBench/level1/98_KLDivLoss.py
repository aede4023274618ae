"""Kullback-Leibler divergence of predictions from targets, summed over all elements and divided by the batch
size: sum of targets * (log(targets) - log(predictions)) / batch_size. Both inputs are float32 of shape
(batch_size, *input_shape) and hold probabilities whose last dimension sums to one, the result is one float32
scalar. The logits of the predictions are scaled by one random number in [0, 1), which is drawn first. The
constant dim is not used.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16384
input_shape = (16384,)
dim = 1


class Model(nn.Module):
    """Kullback-Leibler divergence per sample."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(())
    predictions = (torch.rand(batch_size, *input_shape) * scale).softmax(dim=-1)
    targets = torch.rand(batch_size, *input_shape).softmax(dim=-1)
    return [predictions, targets]


def get_init_inputs() -> list[object]:
    return []
