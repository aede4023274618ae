"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); a learned vector is
subtracted, the mean over the features leaves one column, log-sum-exp over that column (which changes nothing)
and exact GELU are applied, and a detached copy of x is added by broadcasting, so that the result has shape
(batch_size, in_features). All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """Linear layer, learned subtraction, row mean, log-sum-exp, GELU, sum with the input."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)
        self.subtract = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        original = x.clone().detach()
        x = self.gemm(x)
        x = x - self.subtract
        x = torch.mean(x, dim=1, keepdim=True)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = F.gelu(x)
        return x + original


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int]:
    return [in_features, out_features]
