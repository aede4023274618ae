"""A linear layer maps x of shape (batch_size, in_features) to y of shape (batch_size, out_features), and the
result is y * scaling_factor + y, where the unscaled copy that is added back carries no gradient. float32."""

import torch
import torch.nn as nn

batch_size = 16384
in_features = 4096
out_features = 4096
scaling_factor = 0.5


class Model(nn.Module):
    """Linear layer whose scaled output is added to a detached copy of itself."""

    def __init__(self, in_features: int, out_features: int, scaling_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        residual = x.clone().detach()
        return x * self.scaling_factor + residual


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, scaling_factor]
