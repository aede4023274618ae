"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); a learned add_value
of shape add_value_shape is added, and swish, tanh, exact GELU and a clamp to [-1, 1] are applied. All
float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
out_features = 8192
add_value_shape = (out_features,)


class Model(nn.Module):
    """Linear layer, learned sum, swish, tanh, GELU, hardtanh."""

    def __init__(self, in_features: int, out_features: int, add_value_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = x + self.add_value
        x = torch.sigmoid(x) * x
        x = torch.tanh(x)
        x = F.gelu(x)
        return F.hardtanh(x, min_val=-1, max_val=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_features, out_features, add_value_shape]
