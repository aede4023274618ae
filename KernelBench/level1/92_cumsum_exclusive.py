"""Cumulative sum along dimension dim (1) without the element itself: y[b, j] = sum over k < j of x[b, k], so
y[b, 0] is zero. x and y are float32 of shape (batch_size, *input_shape). The last element of each row has no
influence.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Exclusive cumulative sum."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.size(self.dim)
        sums = torch.cumsum(x.narrow(dim=self.dim, start=0, length=length - 1), dim=self.dim)
        zero = torch.zeros_like(x.select(self.dim, 0).unsqueeze(self.dim))
        return torch.cat([zero, sums], dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, *input_shape)
    return [x]


def get_init_inputs() -> list[int]:
    return [dim]
