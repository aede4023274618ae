"""Matrix product with A and B transposed: three fp16 products on the tensor cores, with the accuracy of fp32.

A first pass brings every column of A and row of B to a fixed range by a power of two and splits each value
into the sum of two fp16 numbers, high and low: 22 bits. One product over three times the depth then adds up
low x high, high x low and high x high, small terms first, and its epilogue takes the powers of two back. Tensor cores
cut off what they add to a sum, so three blocks at a time have a sum of their own, which fp32 adds to the others.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP": 8, "num_warps": 8, "num_stages": 3}


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
def column_top_kernel(
    x_ptr, top_ptr, K, N, PADDED_N, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    x_ptr += tl.program_id(2).to(tl.int64) * K * N
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    top = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, DEPTH, ROWS):
        row = tl.program_id(1) * DEPTH + start + tl.arange(0, ROWS)
        inside = (row[:, None] < K) & (column[None, :] < N)
        x = tl.load(x_ptr + row.to(tl.int64)[:, None] * N + column[None, :], mask=inside, other=0.0)
        top = tl.maximum(top, tl.abs(x))
    bits = tl.max(top, axis=0).to(tl.int32, bitcast=True)
    tl.atomic_max(top_ptr + tl.program_id(2) * PADDED_N + column, bits, mask=column < PADDED_N)


@triton.jit
def split_columns_kernel(
    x_ptr,
    top_ptr,
    parts_ptr,
    K,
    N,
    PADDED,
    PADDED_N,
    LOW_FIRST: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    x_ptr += tl.program_id(2).to(tl.int64) * K * N
    parts_ptr += tl.program_id(2).to(tl.int64) * 2 * PADDED * PADDED_N
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    inside = (row[:, None] < K) & (column[None, :] < N)
    x = tl.load(x_ptr + row[:, None] * N + column[None, :], mask=inside, other=0.0)
    kept = column < PADDED_N
    exponent = tl.load(top_ptr + tl.program_id(2) * PADDED_N + column, mask=kept, other=0) >> 23
    scale = tl.minimum(268 - exponent, 253)
    x *= (scale << 23).to(tl.float32, bitcast=True)[None, :]
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    parts = parts_ptr + row[:, None] * PADDED_N + column[None, :]
    kept = (row[:, None] < PADDED) & kept[None, :]
    second = PADDED.to(tl.int64) * PADDED_N
    tl.store(parts + (second if LOW_FIRST else 0), high, mask=kept)
    tl.store(parts + (0 if LOW_FIRST else second), low, mask=kept)


@triton.jit
def product_kernel(
    a_ptr,
    b_ptr,
    a_top_ptr,
    b_unscale_ptr,
    c_ptr,
    M,
    N,
    PADDED_M: tl.constexpr,
    PADDED: tl.constexpr,
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
    a_ptrs = a_ptr + depth.to(tl.int64)[:, None] * PADDED_M + rows[None, :]
    b_ptrs = b_ptr + (columns % N).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    c = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    steps: tl.constexpr = PADDED // BLOCK_K
    for triple in range(steps):
        part = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for nth in tl.static_range(3):
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
            part = tl.dot(tl.trans(a), tl.trans(b), part)
            turn = 3 * triple + nth == 2 * steps - 1
            a_ptrs += tl.where(turn, (BLOCK_K - PADDED) * PADDED_M, BLOCK_K * PADDED_M)
            b_ptrs += tl.where(turn, BLOCK_K - 2 * PADDED, BLOCK_K)
        c += part
    a_scale = tl.minimum(268 - (tl.load(a_top_ptr + rows) >> 23), 253)
    c *= ((254 - a_scale) << 23).to(tl.float32, bitcast=True)[:, None]
    c *= tl.load(b_unscale_ptr + columns % N)[None, :]
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(c_ptr + offsets, c, mask=(rows[:, None] < M) & (columns[None, :] < N))


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


def split_columns(x: torch.Tensor, *, low_first: bool) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Split matrices into two fp16 parts a column, one above the other; also return the columns' largest magnitudes
    as bits and the padded depth."""
    k, n = x.shape[-2:]
    batch = x.numel() // (k * n)
    padded, padded_n = triton.cdiv(k, DEPTH) * DEPTH, triton.cdiv(n, 256) * 256
    top = torch.zeros((batch, padded_n), device=x.device, dtype=torch.int32)
    parts = torch.empty((batch, 2 * padded, padded_n), device=x.device, dtype=torch.float16)
    column_top_kernel[(padded_n // 128, triton.cdiv(k, 256), batch)](
        x, top, k, n, padded_n, ROWS=32, COLUMNS=128, DEPTH=256, num_warps=4
    )
    split_columns_kernel[(padded_n // 128, triton.cdiv(padded, 32), batch)](
        x, top, parts, k, n, padded, padded_n, LOW_FIRST=low_first, ROWS=32, COLUMNS=128, num_warps=4
    )
    return parts, top, padded


class ModelNew(nn.Module):
    """Matrix product with both factors transposed."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        m, n = A.shape[1], B.shape[0]
        a_parts, a_scale, padded = split_columns(A.contiguous(), low_first=True)
        b_parts, b_scale, _ = split_rows(B.contiguous(), low_first=False)
        c = torch.empty((m, n), device=A.device, dtype=A.dtype)
        tiles = triton.cdiv(m, TILE["BLOCK_M"]) * triton.cdiv(n, TILE["BLOCK_N"])
        product_kernel[(tiles,)](
            a_parts,
            b_parts,
            a_scale,
            b_scale,
            c,
            m,
            n,
            PADDED_M=a_parts.shape[-1],
            PADDED=padded,
            **TILE,
        )
        return c
