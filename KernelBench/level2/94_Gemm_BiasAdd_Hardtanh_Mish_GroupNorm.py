"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); a learned bias of
shape bias_shape is added, the sum clamped to [-1, 1], Mish applied, and every row normalised within
num_groups groups of adjacent features. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
bias_shape = (out_features,)
num_groups = 256


class Model(nn.Module):
    """Linear layer, bias, hardtanh, Mish, group norm."""

    def __init__(self, in_features: int, out_features: int, bias_shape: tuple[int, ...], num_groups: int):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.hardtanh = nn.Hardtanh()
        self.mish = nn.Mish()
        self.groupnorm = nn.GroupNorm(num_groups=num_groups, num_channels=out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = x + self.bias
        x = self.hardtanh(x)
        x = self.mish(x)
        return self.groupnorm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_features, out_features, bias_shape, num_groups]
