"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); every row is
normalised within num_groups groups of adjacent features and its minimum taken, leaving shape (batch_size, 1);
a learned bias of shape bias_shape is added, and broadcasting makes the result (1, out_features, batch_size,
1). All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 512
bias_shape = (1, out_features, 1, 1)


class Model(nn.Module):
    """Linear layer, group norm, row minimum, bias that broadcasts to four axes."""

    def __init__(self, in_features: int, out_features: int, num_groups: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = self.group_norm(x)
        x = torch.min(x, dim=1, keepdim=True).values
        return x + self.bias


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_features, out_features, num_groups, bias_shape]
