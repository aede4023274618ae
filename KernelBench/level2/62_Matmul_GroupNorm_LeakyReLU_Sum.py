"""A linear layer maps x of shape (batch_size, input_size) to (batch_size, hidden_size); every row is
normalised within num_groups groups of adjacent features, leaky ReLU with slope negative_slope is applied, and
the result is added to itself. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_size = 8192
num_groups = 512


class Model(nn.Module):
    """Linear layer, group norm, leaky ReLU, doubling."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_groups: int,
        eps: float = 1e-05,
        negative_slope: float = 0.01,
    ):
        super().__init__()
        self.fc = nn.Linear(input_size, hidden_size)
        self.gn = nn.GroupNorm(num_groups, hidden_size, eps=eps)
        self.leaky_relu = nn.LeakyReLU(negative_slope=negative_slope)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        x = self.gn(x)
        x = self.leaky_relu(x)
        return x + x


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size, num_groups]
