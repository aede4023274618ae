"""Linear layer, row sum, maximum, mean and two logsumexps, without the product.

The sum over the features of x W^T is x times the column sums of W: an exact identity that turns the matrix
product into one read of W and one of x. The steps after the sum act on a single element each and change
nothing.

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
def row_dot_kernel(x_ptr, sum_ptr, bias_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        mask = start + lanes < n
        x = load(x_ptr + row * n + start + lanes, mask=mask, other=0.0)
        total += x * load(sum_ptr + start + lanes, mask=mask, other=0.0)
    for start in range(0, features, BLOCK):
        total += load(bias_ptr + start + lanes, mask=start + lanes < features, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


class ModelNew(nn.Module):
    """Linear layer, row sum, and four reductions over the single remaining column."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.linear.weight
        x = x.contiguous()
        batch, n = x.shape
        features = weight.shape[0]
        partials = torch.empty((SPLITS, n), device=x.device, dtype=torch.float32)
        sums = torch.empty(n, device=x.device, dtype=torch.float32)
        column_sum_kernel[(triton.cdiv(n, 128), SPLITS)](
            weight, partials, features, n, ROWS=32, COLUMNS=128, num_warps=4
        )
        join_kernel[(triton.cdiv(n, 256),)](partials, sums, n, SPLITS=SPLITS, COLUMNS=256, num_warps=4)
        out = torch.empty((batch, 1), device=x.device, dtype=x.dtype)
        row_dot_kernel[(batch,)](x, sums, self.linear.bias, out, n, features, BLOCK=2048, num_warps=8)
        return out
