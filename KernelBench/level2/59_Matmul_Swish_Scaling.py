"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); swish, x *
sigmoid(x), is applied and multiplied by scaling_factor. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_features = 32768
out_features = 32768
scaling_factor = 2.0


class Model(nn.Module):
    """Linear layer, swish, scale."""

    def __init__(self, in_features: int, out_features: int, scaling_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = x * torch.sigmoid(x)
        return x * self.scaling_factor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, scaling_factor]
