"""Linear layer, bias, hard tanh, Mish, group normalisation: a product, then one pass.

The product runs on the tensor cores with the accuracy of fp32: a first pass brings every row to a fixed range by a
power of two and splits each value into two fp16 numbers, high and low, whose three larger products are added up
in fp32, small terms first.

A program holds a row in registers as groups by members, so that mean and variance of every group are
reductions along one axis of the tile.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
LONGEST_SUM = 2048
"""Tensor cores round sums towards zero: longer ones are cut, and the parts meet in the output, rounded to nearest."""


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def mish(x):
    """x * tanh(softplus(x)); with e = exp(x) the hyperbolic tangent is a rational function of e."""
    e = tl.exp(tl.where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return x * n / (n + 2.0)


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
    tl.store(out_ptr + offsets, x, mask=inside)


@triton.jit
def row_kernel(
    y_ptr, linear_bias_ptr, extra_ptr, weight_ptr, bias_ptr, eps, GROUPS: tl.constexpr, MEMBERS: tl.constexpr
):
    columns = tl.arange(0, GROUPS)[:, None] * MEMBERS + tl.arange(0, MEMBERS)[None, :]
    y_ptr += tl.program_id(0).to(tl.int64) * GROUPS * MEMBERS
    extra = tl.load(extra_ptr + columns)
    x = tl.load(y_ptr + columns) + tl.load(linear_bias_ptr + columns)
    x = mish(clamp(x + extra, -1.0, 1.0))
    x -= (tl.sum(x, axis=1) / MEMBERS)[:, None]
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / MEMBERS + eps))[:, None]
    x = x * tl.load(weight_ptr + columns) + tl.load(bias_ptr + columns)
    tl.store(y_ptr + columns, x)


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
    """Linear layer, bias, hardtanh, Mish, group norm."""

    def __init__(self, in_features: int, out_features: int, bias_shape: tuple[int, ...], num_groups: int):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.hardtanh = nn.Hardtanh()
        self.mish = nn.Mish()
        self.groupnorm = nn.GroupNorm(num_groups=num_groups, num_channels=out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear, norm = self.gemm, self.groupnorm
        x = x.contiguous()
        rows, features = len(x), len(linear.weight)
        y = torch.empty((rows, features), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 128) * triton.cdiv(features, 256),)
        a_parts, a_unscale, padded = split_rows(x, low_first=True)
        w_parts, w_unscale, _ = split_rows(linear.weight, low_first=False)
        linear_kernel[grid](
            a_parts,
            w_parts,
            a_unscale,
            w_unscale,
            y,
            rows,
            features,
            PADDED=padded,
            SHARE=LONGEST_SUM,
            BLOCK_M=128,
            BLOCK_N=256,
            BLOCK_K=DEPTH,
            GROUP=8,
            num_warps=8,
            num_stages=4,
        )
        row_kernel[(rows,)](
            y,
            linear.bias,
            self.bias,
            norm.weight,
            norm.bias,
            norm.eps,
            GROUPS=norm.num_groups,
            MEMBERS=features // norm.num_groups,
            num_warps=8,
        )
        return y
