"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); every
pool_kernel_size adjacent features are averaged, exact GELU is applied, the result multiplied by scale_factor,
and the maximum over what remains gives shape (batch_size,). All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
out_features = 8192
pool_kernel_size = 16
scale_factor = 2.0


class Model(nn.Module):
    """Linear layer, average pooling along the features, GELU, scale, row maximum."""

    def __init__(self, in_features: int, out_features: int, pool_kernel_size: int, scale_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.avg_pool = nn.AvgPool1d(kernel_size=pool_kernel_size)
        self.scale_factor = scale_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = self.avg_pool(x.unsqueeze(1)).squeeze(1)
        x = F.gelu(x)
        x = x * self.scale_factor
        return torch.max(x, dim=1).values


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, pool_kernel_size, scale_factor]
