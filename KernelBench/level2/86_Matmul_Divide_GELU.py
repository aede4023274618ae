"""A linear layer maps x of shape (batch_size, input_size) to (batch_size, output_size); it is divided by
divisor and exact GELU is applied. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
input_size = 8192
output_size = 8192
divisor = 10.0


class Model(nn.Module):
    """Linear layer, division, GELU."""

    def __init__(self, input_size: int, output_size: int, divisor: float):
        super().__init__()
        self.linear = nn.Linear(input_size, output_size)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = x / self.divisor
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int | float]:
    return [input_size, output_size, divisor]
