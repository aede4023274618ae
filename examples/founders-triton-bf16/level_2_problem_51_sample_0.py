"""Linear layer, subtraction, row mean, logsumexp of one element, GELU, residual sum, without the product.

The sum over the features of x W^T is x times the column sums of W: an exact identity that turns the matrix
product into one read of W and one of x. The logsumexp of a single element
is that element.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

SPLITS = 16


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def column_sum_kernel(w_ptr, partial_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(1) * ROWS, n_rows, tl.num_programs(1) * ROWS):
        index = start + rows
        mask = (index[:, None] < n_rows) & (columns[None, :] < n_cols)
        total += load(w_ptr + index[:, None] * n_cols + columns[None, :], mask=mask, other=0.0)
    sums = tl.sum(total, axis=0)
    tl.store(partial_ptr + tl.program_id(1) * n_cols + columns, sums, mask=columns < n_cols)


@triton.jit
def join_kernel(partial_ptr, sum_ptr, n_cols, SPLITS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    for i in tl.static_range(SPLITS):
        total += load(partial_ptr + i * n_cols + columns, mask=columns < n_cols, other=0.0)
    tl.store(sum_ptr + columns, total, mask=columns < n_cols)


@triton.jit
def row_kernel(x_ptr, sum_ptr, bias_ptr, subtract_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        mask = start + lanes < n
        x = load(x_ptr + row * n + start + lanes, mask=mask, other=0.0)
        total += x * load(sum_ptr + start + lanes, mask=mask, other=0.0)
    for start in range(0, features, BLOCK):
        mask = start + lanes < features
        total += load(bias_ptr + start + lanes, mask=mask, other=0.0)
        total -= load(subtract_ptr + start + lanes, mask=mask, other=0.0)
    mean = gelu(tl.sum(total, axis=0) / features)
    for start in range(0, n, BLOCK):
        mask = start + lanes < n
        x = load(x_ptr + row * n + start + lanes, mask=mask, other=0.0)
        tl.store(out_ptr + row * n + start + lanes, x + mean, mask=mask)


class ModelNew(nn.Module):
    """Linear layer, learned subtraction, row mean, log-sum-exp, GELU, sum with the input."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)
        self.subtract = nn.Parameter(torch.randn(out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.gemm.weight
        x = x.contiguous()
        batch, n = x.shape
        features = weight.shape[0]
        partials = torch.empty((SPLITS, n), device=x.device, dtype=torch.float32)
        sums = torch.empty(n, device=x.device, dtype=torch.float32)
        column_sum_kernel[(triton.cdiv(n, 128), SPLITS)](
            weight, partials, features, n, ROWS=32, COLUMNS=128, num_warps=4
        )
        join_kernel[(triton.cdiv(n, 256),)](partials, sums, n, SPLITS=SPLITS, COLUMNS=256, num_warps=4)
        out = torch.empty_like(x)
        bias = self.gemm.bias if self.gemm.bias is not None else torch.zeros(features, device=x.device)
        row_kernel[(batch,)](x, sums, bias, self.subtract, out, n, features, BLOCK=2048, num_warps=8)
        return out
