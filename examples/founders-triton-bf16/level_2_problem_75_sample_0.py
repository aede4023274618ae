"""Linear layer, group normalisation, minimum over the features, bias: PyTorch's product, then one pass.

A program holds a row in registers as groups by members, so that mean and variance of every group are
reductions along one axis of the tile.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"num_warps": 16}


@triton.jit
def nan_minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def row_kernel(y_ptr, out_ptr, weight_ptr, bias_ptr, eps, GROUPS: tl.constexpr, MEMBERS: tl.constexpr):
    columns = tl.arange(0, GROUPS)[:, None] * MEMBERS + tl.arange(0, MEMBERS)[None, :]
    y_ptr += tl.program_id(0).to(tl.int64) * GROUPS * MEMBERS
    x = tl.load(y_ptr + columns).to(tl.float32)
    x -= (tl.sum(x, axis=1) / MEMBERS)[:, None]
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / MEMBERS + eps))[:, None]
    x = x * tl.load(weight_ptr + columns).to(tl.float32) + tl.load(bias_ptr + columns).to(tl.float32)
    x = tl.reduce(tl.reduce(x, 1, nan_minimum), 0, nan_minimum)
    tl.store(out_ptr + tl.program_id(0), x)


@triton.jit
def outer_sum_kernel(bias_ptr, row_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    feature = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < rows
    x = tl.load(row_ptr + columns, mask=mask).to(tl.float32) + tl.load(bias_ptr + feature).to(tl.float32)
    tl.store(out_ptr + feature * rows + columns, x, mask=mask)


class ModelNew(nn.Module):
    """Linear layer, group norm, row minimum, bias that broadcasts to four axes."""

    def __init__(self, in_features: int, out_features: int, num_groups: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear, norm = self.gemm, self.group_norm
        y = F.linear(x, linear.weight, linear.bias)
        rows, features = y.shape
        lows = torch.empty(rows, device=y.device, dtype=y.dtype)
        row_kernel[(rows,)](
            y,
            lows,
            norm.weight,
            norm.bias,
            norm.eps,
            GROUPS=norm.num_groups,
            MEMBERS=features // norm.num_groups,
            **TILE,
        )
        out = torch.empty((1, features, rows, 1), device=y.device, dtype=y.dtype)
        outer_sum_kernel[(features, triton.cdiv(rows, 1024))](
            self.bias, lows, out, rows, BLOCK=1024, num_warps=4
        )
        return out
