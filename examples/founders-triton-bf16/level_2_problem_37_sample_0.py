"""Linear layer, swish, bias, group normalisation: PyTorch's product, then one pass.

A program holds a row in registers as groups by members, so that mean and variance of every group are
reductions along one axis of the tile.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"num_warps": 8}


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def row_kernel(y_ptr, extra_ptr, weight_ptr, bias_ptr, eps, GROUPS: tl.constexpr, MEMBERS: tl.constexpr):
    columns = tl.arange(0, GROUPS)[:, None] * MEMBERS + tl.arange(0, MEMBERS)[None, :]
    y_ptr += tl.program_id(0).to(tl.int64) * GROUPS * MEMBERS
    extra = tl.load(extra_ptr + columns).to(tl.float32)
    x = tl.load(y_ptr + columns).to(tl.float32)
    x = x * sigmoid(x) + extra
    x -= (tl.sum(x, axis=1) / MEMBERS)[:, None]
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / MEMBERS + eps))[:, None]
    x = x * tl.load(weight_ptr + columns).to(tl.float32) + tl.load(bias_ptr + columns).to(tl.float32)
    tl.store(y_ptr + columns, x)


class ModelNew(nn.Module):
    """Linear layer, swish, learned bias, group norm."""

    def __init__(self, in_features: int, out_features: int, num_groups: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.group_norm = nn.GroupNorm(num_groups, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear, norm = self.matmul, self.group_norm
        y = F.linear(x, linear.weight, linear.bias)
        rows, features = y.shape
        row_kernel[(rows,)](
            y,
            self.bias,
            norm.weight,
            norm.bias,
            norm.eps,
            GROUPS=norm.num_groups,
            MEMBERS=features // norm.num_groups,
            **TILE,
        )
        return y
