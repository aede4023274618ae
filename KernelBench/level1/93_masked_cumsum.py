"""Cumulative sum along dimension dim (1) over the elements selected by a mask: y[b, j] = sum over k <= j of
x[b, k] * mask[b, k]. x and y are float32 of shape (batch_size, *input_shape). mask is bool of the same shape,
each entry true with probability one half.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Inclusive cumulative sum under a mask."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, *input_shape)
    mask = torch.randint(0, 2, x.shape).bool()
    return [x, mask]


def get_init_inputs() -> list[int]:
    return [dim]
