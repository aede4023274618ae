"""A diagonal matrix times a matrix: each row scaled by its factor, every element read and written once.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def scale_rows_kernel(factor_ptr, x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    factor = load(factor_ptr + row)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = load(x_ptr + row * n_cols + cols, mask=mask)
    tl.store(y_ptr + row * n_cols + cols, x * factor, mask=mask)


class ModelNew(nn.Module):
    """Scale the rows of a matrix by a vector."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        B = B.contiguous()
        y = torch.empty_like(B)
        n_rows, n_cols = B.shape
        scale_rows_kernel[(n_rows, triton.cdiv(n_cols, 4096))](A, B, y, n_cols, BLOCK=4096, num_warps=8)
        return y
