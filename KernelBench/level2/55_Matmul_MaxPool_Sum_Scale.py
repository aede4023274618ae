"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); the maximum of
every kernel_size adjacent features is taken, and the sum over what remains, multiplied by scale_factor, gives
shape (batch_size,). All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_features = 32768
out_features = 32768
kernel_size = 2
scale_factor = 0.5


class Model(nn.Module):
    """Linear layer, max pooling along the features, row sum, scale."""

    def __init__(self, in_features: int, out_features: int, kernel_size: int, scale_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.max_pool = nn.MaxPool1d(kernel_size)
        self.scale_factor = scale_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = self.max_pool(x.unsqueeze(1)).squeeze(1)
        x = torch.sum(x, dim=1)
        return x * self.scale_factor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, kernel_size, scale_factor]
