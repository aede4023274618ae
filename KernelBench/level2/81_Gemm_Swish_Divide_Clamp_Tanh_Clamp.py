"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); swish, x *
sigmoid(x), is applied, the result halved, clamped to [-1, 1], passed through tanh and clamped to [-1, 1] once
more (which changes nothing). All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """Linear layer, swish, halving, clamp, tanh, clamp."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = x * torch.sigmoid(x)
        x = x / 2.0
        x = torch.clamp(x, min=-1.0, max=1.0)
        x = torch.tanh(x)
        return torch.clamp(x, min=-1.0, max=1.0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int]:
    return [in_features, out_features]
