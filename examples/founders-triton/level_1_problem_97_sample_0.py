"""Softmax attention with wide heads: scores with their softmax in one kernel, then one batched product.

Both products are three fp16 products on the tensor cores, which eager PyTorch does in fp32 outside of them: a pass
splits every row of Q and K and every column of V, brought to a fixed range by a power of two, into two fp16 numbers
(22 bits). A program holds the scores of 64 queries with all keys, so the softmax needs no score in memory. Tensor cores
cut off what they add to a sum, and the exponential shows it in large scores: each block of these has a sum of its own,
which fp32 adds to the others, and one half of the keys comes after the other so that registers hold both sums.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
TILE = {
    "scores": {"BLOCK_M": 64, "BLOCK_K": 32, "num_warps": 8, "num_stages": 4},
    "values": {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 32, "num_warps": 8, "num_stages": 4},
}


@triton.jit
def split_rows_kernel(
    x_ptr, parts_ptr, unscale_ptr, rows, K, PADDED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Split rows into a high and a low fp16 part, side by side."""
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
    tl.store(parts, high, mask=inside)
    tl.store(parts + PADDED, low, mask=inside)


@triton.jit
def split_columns_kernel(
    x_ptr,
    parts_ptr,
    unscale_ptr,
    K,
    N,
    PADDED: tl.constexpr,
    PADDED_N: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Split columns into a high and a low fp16 part, one above the other; ROWS holds a whole column."""
    batch = tl.program_id(1).to(tl.int64)
    x_ptr += batch * K * N
    parts_ptr += batch * (2 * PADDED * PADDED_N)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    inside = (row[:, None] < K) & (column[None, :] < N)
    x = tl.load(x_ptr + row[:, None] * N + column[None, :], mask=inside, other=0.0)
    exponent = tl.max(tl.abs(x), axis=0).to(tl.int32, bitcast=True) >> 23
    scale = tl.minimum(268 - exponent, 253)
    tl.store(unscale_ptr + batch * PADDED_N + column, ((254 - scale) << 23).to(tl.float32, bitcast=True))
    x *= (scale << 23).to(tl.float32, bitcast=True)[None, :]
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    parts = parts_ptr + row[:, None] * PADDED_N + column[None, :]
    kept = (row[:, None] < PADDED) & (column[None, :] < PADDED_N)
    tl.store(parts, high, mask=kept)
    tl.store(parts + PADDED * PADDED_N, low, mask=kept)


@triton.jit
def scores_of(
    q_ptrs,
    k_ptrs,
    PADDED: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    scores = tl.zeros([KEYS, BLOCK_M], tl.float32)
    for start in range(0, PADDED, BLOCK_K):
        q_high = tl.load(q_ptrs)
        q_low = tl.load(q_ptrs + PADDED)
        k_high = tl.load(k_ptrs)
        k_low = tl.load(k_ptrs + PADDED)
        part = tl.dot(k_low, tl.trans(q_high))
        part = tl.dot(k_high, tl.trans(q_low), part)
        part = tl.dot(k_high, tl.trans(q_high), part)
        scores += part
        q_ptrs += BLOCK_K
        k_ptrs += BLOCK_K
    return scores


@triton.jit
def store_parts(weights, ptrs, mask, PADDED_KEYS: tl.constexpr):
    """Store weights of up to 16384 as a high and a low fp16 part."""
    high = weights.to(tl.float16)
    low = (weights - high.to(tl.float32)).to(tl.float16)
    tl.store(ptrs, high, mask=mask)
    tl.store(ptrs + PADDED_KEYS, low, mask=mask)


@triton.jit
def scores_kernel(
    q_ptr,
    k_ptr,
    q_unscale_ptr,
    k_unscale_ptr,
    out_ptr,
    out_unscale_ptr,
    queries,
    keys,
    factor,
    PADDED: tl.constexpr,
    PADDED_KEYS: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """exp(score - largest score of the query), split into fp16 parts, and what brings a query back to sum one.

    Keys go down and queries across, so that every warp has rows of its own."""
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    half: tl.constexpr = KEYS // 2
    row = tl.arange(0, half)
    depth = tl.arange(0, BLOCK_K)
    query = batch * queries + column % queries
    q_ptrs = q_ptr + query[:, None] * (2 * PADDED) + depth[None, :]
    first_key, second_key = batch * keys + row % keys, batch * keys + (half + row) % keys
    first = scores_of(
        q_ptrs, k_ptr + first_key[:, None] * (2 * PADDED) + depth[None, :], PADDED, half, BLOCK_M, BLOCK_K
    )
    second = scores_of(
        q_ptrs, k_ptr + second_key[:, None] * (2 * PADDED) + depth[None, :], PADDED, half, BLOCK_M, BLOCK_K
    )
    q_unscale = tl.load(q_unscale_ptr + query)[None, :]
    first *= q_unscale
    second *= q_unscale
    first *= tl.load(k_unscale_ptr + first_key)[:, None] * factor
    second *= tl.load(k_unscale_ptr + second_key)[:, None] * factor
    first = tl.where((row < keys)[:, None], first, float("-inf"))
    second = tl.where((half + row < keys)[:, None], second, float("-inf"))
    top = tl.maximum(tl.max(first, axis=0), tl.max(second, axis=0))[None, :]
    first = tl.exp(first - top)
    second = tl.exp(second - top)
    total = tl.sum(first, axis=0) + tl.sum(second, axis=0)
    inside = column < queries
    tl.store(out_unscale_ptr + batch * queries + column, (1.0 / 16384.0) / total, mask=inside)
    parts = out_ptr + (batch * queries + column)[None, :] * (2 * PADDED_KEYS) + row[:, None]
    mask = inside[None, :] & (row < PADDED_KEYS)[:, None]
    store_parts(first * 16384.0, parts, mask, PADDED_KEYS)
    mask = inside[None, :] & (half + row < PADDED_KEYS)[:, None]
    store_parts(second * 16384.0, parts + half, mask, PADDED_KEYS)


@triton.jit
def product_kernel(
    a_ptr,
    b_ptr,
    a_unscale_ptr,
    b_unscale_ptr,
    c_ptr,
    M,
    N,
    PADDED_N: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    rows = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (batch * M + rows % M)[:, None] * (2 * PADDED) + depth[None, :]
    b_ptrs = b_ptr + batch * (2 * PADDED * PADDED_N) + depth[:, None] * PADDED_N + columns[None, :]
    c = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PADDED, BLOCK_K):
        a_high = tl.load(a_ptrs)
        a_low = tl.load(a_ptrs + PADDED)
        b_high = tl.load(b_ptrs)
        b_low = tl.load(b_ptrs + PADDED * PADDED_N)
        c = tl.dot(a_low, b_high, c)
        c = tl.dot(a_high, b_low, c)
        c = tl.dot(a_high, b_high, c)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * PADDED_N
    c *= tl.load(a_unscale_ptr + batch * M + rows % M)[:, None]
    c *= tl.load(b_unscale_ptr + batch * PADDED_N + columns)[None, :]
    offsets = (batch * M + rows)[:, None] * N + columns[None, :]
    tl.store(c_ptr + offsets, c, mask=(rows[:, None] < M) & (columns[None, :] < N))


def split_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
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
        ROWS=height,
        BLOCK=block,
        num_warps=16 if block > 8192 else 8,
    )
    return parts, unscale, padded


class ModelNew(nn.Module):
    """Scaled dot-product attention."""

    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        (queries, size), (keys, width) = Q.shape[-2:], V.shape[-2:]
        batch = Q.numel() // (queries * size)
        if keys > 512 or Q.shape[:-2] != K.shape[:-2] or Q.shape[:-2] != V.shape[:-2]:
            raise ValueError(
                "this kernel is written for up to 512 keys and as many heads of keys as of queries"
            )
        q_parts, q_unscale, padded = split_rows(Q.contiguous())
        k_parts, k_unscale, _ = split_rows(K.contiguous())
        padded_keys, padded_width = triton.cdiv(keys, DEPTH) * DEPTH, triton.cdiv(width, 256) * 256
        whole = triton.next_power_of_2(padded_keys)
        weights = torch.empty((batch * queries, 2 * padded_keys), device=Q.device, dtype=torch.float16)
        w_unscale = torch.empty(batch * queries, device=Q.device, dtype=torch.float32)
        tile = TILE["scores"]
        scores_kernel[(triton.cdiv(queries, tile["BLOCK_M"]), batch)](
            q_parts,
            k_parts,
            q_unscale,
            k_unscale,
            weights,
            w_unscale,
            queries,
            keys,
            size**-0.5,
            PADDED=padded,
            PADDED_KEYS=padded_keys,
            KEYS=whole,
            **tile,
        )
        v_parts = torch.empty((batch, 2 * padded_keys, padded_width), device=Q.device, dtype=torch.float16)
        v_unscale = torch.empty((batch, padded_width), device=Q.device, dtype=torch.float32)
        split_columns_kernel[(padded_width // 32, batch)](
            V.contiguous(),
            v_parts,
            v_unscale,
            keys,
            width,
            PADDED=padded_keys,
            PADDED_N=padded_width,
            ROWS=whole,
            COLUMNS=32,
            num_warps=8,
        )
        out = torch.empty((*Q.shape[:-1], width), device=Q.device, dtype=Q.dtype)
        tile = TILE["values"]
        product_kernel[(triton.cdiv(queries, tile["BLOCK_M"]) * triton.cdiv(width, tile["BLOCK_N"]), batch)](
            weights,
            v_parts,
            w_unscale,
            v_unscale,
            out,
            queries,
            width,
            PADDED_N=padded_width,
            PADDED=padded_keys,
            **tile,
        )
        return out
