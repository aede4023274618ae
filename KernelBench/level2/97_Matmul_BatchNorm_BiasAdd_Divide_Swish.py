"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); every feature is
normalised over the batch (batch normalisation in training mode, batch statistics), a learned bias of shape
bias_shape is added, the sum divided by divide_value, and swish, x * sigmoid(x), applied. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
bn_eps = 1e-05
bn_momentum = 0.1
bias_shape = (1,)
divide_value = 1.0


class Model(nn.Module):
    """Linear layer, batch norm, bias, division, swish."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bn_eps: float = 1e-05,
        bn_momentum: float = 0.1,
        bias_shape: tuple[int, ...] = (1,),
        divide_value: float = 1.0,
    ):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.divide_value = divide_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = self.bn(x)
        x = x + self.bias
        x = x / self.divide_value
        return x * torch.sigmoid(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float | tuple[int, ...]]:
    return [in_features, out_features, bn_eps, bn_momentum, bias_shape, divide_value]
