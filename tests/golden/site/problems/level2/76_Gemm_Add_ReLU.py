"""A linear layer without a bias of its own maps x of shape (batch_size, in_features) to (batch_size,
out_features); a learned bias of shape bias_shape is added to every row and ReLU is applied. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
bias_shape = (out_features,)


class Model(nn.Module):
    """Matrix product, separate bias parameter, ReLU."""

    def __init__(self, in_features: int, out_features: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = x + self.bias
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_features, out_features, bias_shape]
