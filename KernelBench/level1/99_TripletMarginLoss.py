"""Triplet margin loss, the mean over the rows of max(d(anchor, positive) - d(anchor, negative) + margin, 0),
where d is the Euclidean norm of the difference with 1e-6 added to each component. The inputs are float32 of
shape (batch_size, *input_shape), the result is one float32 scalar. The anchor is scaled by one random number
in [0, 1), which is drawn first. The constant dim is not used.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (8192,)
dim = 1


class Model(nn.Module):
    """Mean triplet margin loss."""

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        self.loss_fn = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return self.loss_fn(anchor, positive, negative)


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(())
    anchor = torch.rand(batch_size, *input_shape) * scale
    positive = torch.rand(batch_size, *input_shape)
    negative = torch.rand(batch_size, *input_shape)
    return [anchor, positive, negative]


def get_init_inputs() -> list[float]:
    return [1.0]
