"""Causal attention with ReLU weights: projection and attention, neither of which writes a score.

Scores are rounded to bf16 where PyTorch rounds them: before and after the scale, which is the same where this is a
power of two. Only the keys next to a block of queries need the causal mask. Eager PyTorch writes the scores of all
pairs and passes over them for the scale, the mask and the ReLU.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "linear": {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 4},
    "attention": {"BLOCK": 128, "KEYS": 64, "num_warps": 8, "num_stages": 3},
}


@triton.jit
def linear_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K: tl.constexpr,
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
    x_ptrs = x_ptr + (rows % M).to(tl.int64)[:, None] * K + depth[None, :]
    w_ptrs = weight_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
    y = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        if K % BLOCK_K == 0:
            x = tl.load(x_ptrs)
            w = tl.load(w_ptrs)
        else:
            x = tl.load(x_ptrs, mask=(depth < K - start)[None, :], other=0.0)
            w = tl.load(w_ptrs, mask=(depth < K - start)[None, :], other=0.0)
        y = tl.dot(x, tl.trans(w), y)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    y += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(out_ptr + offsets, y, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def add_values(
    out,
    q,
    key_ptr,
    start,
    rows,
    length,
    scale,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    KEYS: tl.constexpr,
    NEAR: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Add the values of some keys, weighted by their scores; NEAR where some of them lie in the future."""
    keys = start + tl.arange(0, KEYS)
    columns = tl.arange(0, PADDED)
    ptrs = key_ptr + keys[:, None] * (3 * WIDTH) + columns[None, :]
    if NEAR or PADDED != SIZE:
        mask = (keys[:, None] < length) & (columns[None, :] < SIZE)
        k = tl.load(ptrs, mask=mask, other=0.0)
        v = tl.load(ptrs + WIDTH, mask=mask, other=0.0)
    else:
        k = tl.load(ptrs)
        v = tl.load(ptrs + WIDTH)
    scores = tl.dot(q, tl.trans(k))
    if not EXACT:
        scores = scores.to(tl.bfloat16).to(tl.float32)
    weights = tl.maximum(scores * scale, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if NEAR:
        weights = tl.where(rows[:, None] >= keys[None, :], weights, 0.0)
    return tl.dot(weights.to(tl.bfloat16), v, out)


@triton.jit
def attention_kernel(
    qkv_ptr,
    out_ptr,
    length,
    scale,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
    EXACT: tl.constexpr,
):
    """One block of queries of one head; the qkv projection is read in place."""
    width: tl.constexpr = HEADS * SIZE
    sample, head = (tl.program_id(1) // HEADS).to(tl.int64), tl.program_id(1) % HEADS
    base = qkv_ptr + sample * length * (3 * width) + head * SIZE
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    rows = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, PADDED)
    mask = (rows[:, None] < length) & (columns[None, :] < SIZE)
    q = tl.load(base + rows[:, None] * (3 * width) + columns[None, :], mask=mask, other=0.0)
    out = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(0, first, KEYS):
        out = add_values(
            out, q, base + width, start, rows, length, scale, width, SIZE, PADDED, KEYS, False, EXACT
        )
    for start in range(first, first + BLOCK, KEYS):
        out = add_values(
            out, q, base + width, start, rows, length, scale, width, SIZE, PADDED, KEYS, True, EXACT
        )
    offsets = (sample * length + rows[:, None]) * width + head * SIZE + columns[None, :]
    tl.store(out_ptr + offsets, out, mask=mask)


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
        size**-0.5,
        HEADS=heads,
        SIZE=size,
        PADDED=max(16, triton.next_power_of_2(size)),
        EXACT=math.frexp(size**-0.5)[0] == 0.5,
        **TILE["attention"],
    )
    return out


def linear(x: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """x W^T + b over the last dimension."""
    n, k = layer.weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, TILE["linear"]["BLOCK_M"]) * triton.cdiv(n, TILE["linear"]["BLOCK_N"]),)
    linear_kernel[grid](x, layer.weight, layer.bias, out, m, n, K=k, **TILE["linear"])
    return out
