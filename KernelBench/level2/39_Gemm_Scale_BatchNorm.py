"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); every feature is
multiplied by a learned scale of shape scale_shape and normalised over the batch (batch normalisation in
training mode, batch statistics). The network of problem 33 at other sizes. All float32."""

import torch
import torch.nn as nn

batch_size = 16384
in_features = 4096
out_features = 4096
scale_shape = (out_features,)


class Model(nn.Module):
    """Linear layer, learned scale, batch norm."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        scale_shape: tuple[int, ...],
        eps: float = 1e-05,
        momentum: float = 0.1,
    ):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.scale = nn.Parameter(torch.randn(scale_shape))
        self.bn = nn.BatchNorm1d(out_features, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = x * self.scale
        return self.bn(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_features, out_features, scale_shape]
