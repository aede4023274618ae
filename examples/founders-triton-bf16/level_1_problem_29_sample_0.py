"""Softplus, log(1 + exp(x)): one read, one write and few steps between.

A program reads a block of neighbouring values, 16 bytes a load, and writes it. Softplus is max(x, 0) and
log(1 + t) with t = exp(-|x|), which is never above one. There t times a polynomial is right to a share of 1e-5, for
small t as well. That takes fewer steps than a logarithm and no choice between cases, so that the memory is what takes
time. Above 20, where PyTorch gives x, the second term is below 3e-9.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 1024, "LOAD": "evict_first", "STORE": "evict_first", "num_warps": 4}


@triton.jit
def softplus_kernel(
    x_ptr,
    y_ptr,
    size,
    EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
    LOAD: tl.constexpr,
    STORE: tl.constexpr,
):
    """A program has one block of memory."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lanes = tl.arange(0, BLOCK)
    mask = None if EVEN else lanes < size - start
    x = tl.load(x_ptr + start + lanes, mask=mask, eviction_policy=LOAD).to(tl.float32)
    t = tl.exp2(tl.abs(x) * -1.44269504)
    log = -0.0239795731
    log = log * t + 0.101500047
    log = log * t - 0.210293693
    log = log * t + 0.325295141
    log = log * t - 0.499372598
    log = log * t + 0.999991829
    y = log * t + tl.maximum(x, 0.0)
    tl.store(y_ptr + start + lanes, y.to(y_ptr.dtype.element_ty), mask=mask, eviction_policy=STORE)


class ModelNew(nn.Module):
    """Elementwise softplus."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        size = x.numel()
        softplus_kernel[(triton.cdiv(size, TILE["BLOCK"]),)](
            x, y, size, EVEN=size % TILE["BLOCK"] == 0, **TILE
        )
        return y
