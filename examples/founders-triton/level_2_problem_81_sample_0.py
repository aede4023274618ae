"""Linear layer, swish, halving, clamp, tanh, clamp: one kernel after the split of its factors.

The product runs on the tensor cores with the accuracy of fp32: a first pass brings every row to a fixed range by a
power of two and splits each value into two fp16 numbers, high and low, whose three larger products are added up
in fp32, small terms first; everything after it happens on the accumulator before its last store.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
LONGEST_SUM = 2048
"""Tensor cores round sums towards zero: longer ones are cut, and the parts meet in the output, rounded to nearest."""


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def split_rows_kernel(
    x_ptr,
    parts_ptr,
    unscale_ptr,
    rows,
    K,
    PADDED: tl.constexpr,
    LOW_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = row[:, None] < rows
    x = tl.load(x_ptr + row[:, None] * K + column[None, :], mask=inside & (column[None, :] < K), other=0.0)
    exponent = tl.max(tl.abs(x), axis=1).to(tl.int32, bitcast=True) >> 23
    scale = tl.minimum(268 - exponent, 253)
    tl.store(unscale_ptr + row, ((254 - scale) << 23).to(tl.float32, bitcast=True), mask=row < rows)
    x *= (scale << 23).to(tl.float32, bitcast=True)[:, None]
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    parts = parts_ptr + row[:, None] * (2 * PADDED) + column[None, :]
    inside = inside & (column[None, :] < PADDED)
    tl.store(parts + (PADDED if LOW_FIRST else 0), high, mask=inside)
    tl.store(parts + (0 if LOW_FIRST else PADDED), low, mask=inside)


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
    a_unscale_ptr,
    w_unscale_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    PADDED: tl.constexpr,
    SHARE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    group = tl.minimum(tiles_m - first_m, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    tile_m, tile_n = first_m + within % group, within // group
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_starts = a_ptr + (rows % M).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    w_starts = w_ptr + (columns % N).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for begin in range(0, PADDED, SHARE):
        span = tl.minimum(PADDED - begin, SHARE)
        steps = span // BLOCK_K
        a_ptrs = a_starts + begin
        w_ptrs = w_starts + begin
        x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for step in range(3 * steps):
            a = tl.load(a_ptrs)
            w = tl.load(w_ptrs)
            x = tl.dot(a, tl.trans(w), x)
            middle = step == steps - 1
            turn = step == 2 * steps - 1
            a_ptrs += BLOCK_K + tl.where(middle, PADDED - span, 0) - tl.where(turn, span, 0)
            w_ptrs += BLOCK_K + tl.where(middle, PADDED - span, 0) - tl.where(turn, PADDED + span, 0)
        if begin > 0:
            x += tl.load(out_ptr + offsets, mask=inside, other=0.0)
        if begin + SHARE < PADDED:
            tl.store(out_ptr + offsets, x, mask=inside)
            tl.debug_barrier()
    x *= tl.load(a_unscale_ptr + rows % M)[:, None]
    x *= tl.load(w_unscale_ptr + columns % N)[None, :]
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    x = clamp(tanh(clamp(x * sigmoid(x) * 0.5, -1.0, 1.0)), -1.0, 1.0)
    tl.store(out_ptr + offsets, x, mask=inside)


def split_rows(x: torch.Tensor, *, low_first: bool) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Split a matrix into two fp16 parts a row, side by side; also return the rows' unscaling and the padded depth."""
    k = x.shape[-1]
    rows = x.numel() // k
    padded = triton.cdiv(k, DEPTH) * DEPTH
    block = triton.next_power_of_2(padded)
    height = max(1, 4096 // block)
    parts = torch.empty((rows, 2 * padded), device=x.device, dtype=torch.float16)
    unscale = torch.empty(rows, device=x.device, dtype=torch.float32)
    split_rows_kernel[(triton.cdiv(rows, height),)](
        x,
        parts,
        unscale,
        rows,
        k,
        PADDED=padded,
        LOW_FIRST=low_first,
        ROWS=height,
        BLOCK=block,
        num_warps=16 if block > 8192 else 8,
    )
    return parts, unscale, padded


class ModelNew(nn.Module):
    """Linear layer, swish, halving, clamp, tanh, clamp."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight = self.gemm.weight
        m, n = len(x), len(weight)
        out = torch.empty((m, n), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(m, 128) * triton.cdiv(n, 256),)
        a_parts, a_unscale, padded = split_rows(x, low_first=True)
        w_parts, w_unscale, _ = split_rows(weight, low_first=False)
        linear_kernel[grid](
            a_parts,
            w_parts,
            a_unscale,
            w_unscale,
            self.gemm.bias,
            out,
            m,
            n,
            PADDED=padded,
            SHARE=LONGEST_SUM,
            BLOCK_M=128,
            BLOCK_N=256,
            BLOCK_K=DEPTH,
            GROUP=8,
            num_warps=8,
            num_stages=4,
        )
        return out
