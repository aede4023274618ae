"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); every feature is
normalised over the batch (batch normalisation in training mode, batch statistics), multiplied by a learned
scale of shape scale_shape that starts at one, and softmax over the features is applied. All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
bn_eps = 1e-05
bn_momentum = 0.1
scale_shape = (1,)


class Model(nn.Module):
    """Linear layer, batch norm, learned scale, softmax."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bn_eps: float = 1e-05,
        bn_momentum: float = 0.1,
        scale_shape: tuple[int, ...] = (1,),
    ):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = self.bn(x)
        x = self.scale * x
        return self.softmax(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float | tuple[int, ...]]:
    return [in_features, out_features, bn_eps, bn_momentum, scale_shape]
