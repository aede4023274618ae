"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); subtract_value is
subtracted, the difference multiplied by multiply_value, and ReLU applied. All float32. With the default
initialisation and uniform inputs the pre-activation lies far below zero, so the output is all zero unless
inputs and weights are correlated."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
subtract_value = 2.0
multiply_value = 1.5


class Model(nn.Module):
    """Linear layer, subtraction, multiplication, ReLU."""

    def __init__(self, in_features: int, out_features: int, subtract_value: float, multiply_value: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value = subtract_value
        self.multiply_value = multiply_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = x - self.subtract_value
        x = x * self.multiply_value
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, subtract_value, multiply_value]
