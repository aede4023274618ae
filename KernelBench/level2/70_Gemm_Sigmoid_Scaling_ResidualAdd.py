"""A linear layer maps x of shape (batch_size, input_size) to y of shape (batch_size, hidden_size), and the
result is sigmoid(y) * scaling_factor + y. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_size = 8192
scaling_factor = 2.0


class Model(nn.Module):
    """Linear layer plus its scaled sigmoid."""

    def __init__(self, input_size: int, hidden_size: int, scaling_factor: float):
        super().__init__()
        self.gemm = nn.Linear(input_size, hidden_size)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        residual = x
        x = torch.sigmoid(x)
        x = x * self.scaling_factor
        return x + residual


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, scaling_factor]
