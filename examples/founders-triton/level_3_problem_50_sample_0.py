"""Causal attention with ReLU weights: projection and attention, neither of which writes a score.

Without a softmax large terms cancel in the sums, so the tensor cores, which cut off bits as they accumulate, only
add up short runs; these are added in fp32 outside. The projection takes three fp16 products of numbers split into two
parts, the attention three TF32 products. Eager PyTorch does all of it in fp32 without tensor cores.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
TILE = {
    "linear": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3},
    "attention": {"BLOCK": 128, "KEYS": 64, "num_warps": 8, "num_stages": 2},
}


@triton.jit
def split_rows_kernel(
    x_ptr,
    parts_ptr,
    unscale_ptr,
    rows,
    K,
    PADDED: tl.constexpr,
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
    tl.store(parts, high, mask=inside)
    tl.store(parts + PADDED, low, mask=inside)


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
    a_ptrs = a_ptr + (rows % M).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PADDED, BLOCK_K):
        a_high = tl.load(a_ptrs)
        a_low = tl.load(a_ptrs + PADDED)
        w_high = tl.load(w_ptrs)
        w_low = tl.load(w_ptrs + PADDED)
        part = tl.dot(a_low, tl.trans(w_high))
        part = tl.dot(a_high, tl.trans(w_low), part)
        x += tl.dot(a_high, tl.trans(w_high), part)
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    x *= tl.load(a_unscale_ptr + rows % M)[:, None]
    x *= tl.load(w_unscale_ptr + columns % N)[None, :]
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def first_bits(x):
    """The number rounded to the eleven bits that TF32 holds."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def precise_dot(a, b):
    """A product of numbers that are each the sum of two TF32 numbers, without low x low."""
    a_high, b_high = first_bits(a), first_bits(b)
    part = tl.dot(a - a_high, b_high, input_precision="tf32")
    part = tl.dot(a_high, b - b_high, part, input_precision="tf32")
    return tl.dot(a_high, b_high, part, input_precision="tf32")


@triton.jit
def attention_kernel(
    qkv_ptr,
    out_ptr,
    length,
    heads,
    scale,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
):
    """One block of queries of one head; the qkv projection is read in place."""
    sample, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    width = heads * SIZE
    base = qkv_ptr + sample * length * 3 * width + head * SIZE
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    rows = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, PADDED)
    inside = columns[None, :] < SIZE
    row_mask = (rows[:, None] < length) & inside
    q = tl.load(base + rows[:, None] * 3 * width + columns[None, :], mask=row_mask, other=0.0) * scale
    out = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(0, first + BLOCK, KEYS):
        keys = start + tl.arange(0, KEYS)
        offsets = keys[:, None] * 3 * width + columns[None, :]
        key_mask = (keys[:, None] < length) & inside
        k = tl.load(base + width + offsets, mask=key_mask, other=0.0)
        v = tl.load(base + 2 * width + offsets, mask=key_mask, other=0.0)
        scores = precise_dot(q, tl.trans(k))
        weights = tl.where((rows[:, None] >= keys[None, :]) & (scores > 0.0), scores, 0.0)
        out += precise_dot(weights, v)
    offsets = (sample * length + rows[:, None]) * width + head * SIZE + columns[None, :]
    tl.store(out_ptr + offsets, out, mask=row_mask)


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
    """Causal attention with unnormalised ReLU weights and no output projection."""

    def __init__(self, n_embd, n_head, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        allowed = torch.tril(torch.ones(max_seqlen, max_seqlen))
        self.register_buffer("bias", allowed.view(1, 1, max_seqlen, max_seqlen))
        self.n_head = n_head
        self.n_embd = n_embd

    def forward(self, x):
        return attend(linear(x.contiguous(), self.c_attn), self.n_head)


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Causal attention over a joint projection (batch, length, 3 * width); returns (batch, length, width)."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    size = width // heads
    out = torch.empty((batch, length, width), device=qkv.device, dtype=qkv.dtype)
    attention_kernel[(triton.cdiv(length, TILE["attention"]["BLOCK"]), batch * heads)](
        qkv,
        out,
        length,
        heads,
        size**-0.5,
        SIZE=size,
        PADDED=triton.next_power_of_2(size),
        **TILE["attention"],
    )
    return out


def linear(x: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """x W^T + b over the last dimension."""
    n, k = layer.weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, TILE["linear"]["BLOCK_M"]) * triton.cdiv(n, TILE["linear"]["BLOCK_N"]),)
    a_parts, a_unscale, padded = split_rows(x)
    w_parts, w_unscale, _ = split_rows(layer.weight)
    linear_kernel[grid](
        a_parts,
        w_parts,
        a_unscale,
        w_unscale,
        layer.bias,
        out,
        m,
        n,
        PADDED=padded,
        **TILE["linear"],
    )
    return out
