"""A linear layer maps x of shape (batch_size, input_size) to (batch_size, hidden_size); sigmoid is applied
and the sum over the hidden axis gives shape (batch_size, 1). All float32."""

import torch
import torch.nn as nn

batch_size = 128
input_size = 32768
hidden_size = 32768


class Model(nn.Module):
    """Linear layer, sigmoid, row sum."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = torch.sigmoid(x)
        return torch.sum(x, dim=1, keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int]:
    return [input_size, hidden_size]
