"""Cumulative product along dimension dim (1), each element included: y[b, j] = product over k <= j of
x[b, k]. x and y are float32 of shape (batch_size, *input_shape). The inputs are drawn from [0, 1), so the
products soon underflow to zero.
"""

import torch
import torch.nn as nn

batch_size = 32768
input_shape = (32768,)
dim = 1


class Model(nn.Module):
    """Inclusive cumulative product."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumprod(x, dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, *input_shape)
    return [x]


def get_init_inputs() -> list[int]:
    return [dim]
