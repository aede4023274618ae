"""Inclusive cumulative product along rows: a scan of 4096 elements in registers, the product carried on.

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
def product(a, b):
    return a * b


@triton.jit
def cumprod_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n
    y_ptr += row * n
    lanes = tl.arange(0, BLOCK)
    carry = 1.0
    for start in range(0, n, BLOCK):
        cols = start + lanes
        mask = cols < n
        x = load(x_ptr + cols, mask=mask, other=1.0)
        sums = tl.cumprod(x, axis=0)
        tl.store(y_ptr + cols, carry * sums, mask=mask)
        carry *= tl.reduce(x, 0, product)


class ModelNew(nn.Module):
    """Inclusive cumulative product over the last dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.shape[self.dim]
        cumprod_kernel[(x.numel() // n,)](x, y, n, BLOCK=4096, num_warps=8)
        return y
