"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); the log-sum-exp
over the features leaves shape (batch_size, 1), to which leaky ReLU (slope 0.01) and then exact GELU are
applied twice each. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """Linear layer, log-sum-exp, leaky ReLU twice, GELU twice."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = F.leaky_relu(x, negative_slope=0.01)
        x = F.leaky_relu(x, negative_slope=0.01)
        x = F.gelu(x)
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int]:
    return [in_features, out_features]
