"""Softmax attention with wide heads: scores with their softmax in one kernel, then one batched product.

Heads are too wide for one kernel to hold both the scores and the result. A program holds the scores of 64 queries with
all keys, so the softmax needs no score in memory; the sum of a row divides the result of the second product.

Inputs and outputs are bf16, and so are the weights of the values; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "scores": {"BLOCK_M": 64, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    "values": {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
}


@triton.jit
def scores_kernel(
    q_ptr,
    k_ptr,
    weights_ptr,
    total_ptr,
    queries,
    keys,
    factor,
    SIZE: tl.constexpr,
    PITCH: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """exp(score - largest score of the query), and the sum of these.

    Keys go down and queries across, so that every warp has rows of its own."""
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row = tl.arange(0, KEYS)
    depth = tl.arange(0, BLOCK_K)
    q_ptrs = q_ptr + (batch * queries + column % queries)[:, None] * SIZE + depth[None, :]
    k_ptrs = k_ptr + (batch * keys + row % keys)[:, None] * SIZE + depth[None, :]
    scores = tl.zeros([KEYS, BLOCK_M], tl.float32)
    for start in range(0, SIZE, BLOCK_K):
        if SIZE % BLOCK_K == 0:
            q = tl.load(q_ptrs)
            k = tl.load(k_ptrs)
        else:
            q = tl.load(q_ptrs, mask=(depth < SIZE - start)[None, :], other=0.0)
            k = tl.load(k_ptrs, mask=(depth < SIZE - start)[None, :], other=0.0)
        scores = tl.dot(k, tl.trans(q), scores)
        q_ptrs += BLOCK_K
        k_ptrs += BLOCK_K
    scores = tl.where((row < keys)[:, None], scores * factor, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=0)[None, :])
    inside = column < queries
    tl.store(total_ptr + batch * queries + column, tl.sum(weights, axis=0), mask=inside)
    offsets = (batch * queries + column)[None, :] * PITCH + row[:, None]
    tl.store(weights_ptr + offsets, weights, mask=inside[None, :] & (row < PITCH)[:, None])


@triton.jit
def product_kernel(
    weights_ptr,
    v_ptr,
    total_ptr,
    out_ptr,
    queries,
    keys,
    WIDTH: tl.constexpr,
    PITCH: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The weights times the values, divided by the sums of the weights."""
    batch = tl.program_id(1).to(tl.int64)
    tiles_m = tl.cdiv(queries, BLOCK_M)
    rows = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    w_ptrs = weights_ptr + (batch * queries + rows % queries)[:, None] * PITCH + depth[None, :]
    v_ptrs = v_ptr + (batch * keys + depth)[:, None] * WIDTH + (columns % WIDTH)[None, :]
    out = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PITCH, BLOCK_K):
        w = tl.load(w_ptrs)
        if WHOLE:
            v = tl.load(v_ptrs)
        else:
            v = tl.load(v_ptrs, mask=(depth < keys - start)[:, None], other=0.0)
        out = tl.dot(w, v, out)
        w_ptrs += BLOCK_K
        v_ptrs += BLOCK_K * WIDTH
    out /= tl.load(total_ptr + batch * queries + rows % queries)[:, None]
    offsets = (batch * queries + rows)[:, None] * WIDTH + columns[None, :]
    tl.store(out_ptr + offsets, out, mask=(rows[:, None] < queries) & (columns[None, :] < WIDTH))


class ModelNew(nn.Module):
    """Scaled dot-product attention."""

    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        (queries, size), (keys, width) = Q.shape[-2:], V.shape[-2:]
        batch = Q.numel() // (queries * size)
        if keys > 512 or Q.shape[:-2] != K.shape[:-2] or Q.shape[:-2] != V.shape[:-2]:
            raise ValueError(
                "this kernel is written for up to 512 keys and as many heads of keys as of queries"
            )
        tile = TILE["scores"]
        pitch = triton.cdiv(keys, 64) * 64
        weights = torch.empty((batch * queries, pitch), device=Q.device, dtype=Q.dtype)
        total = torch.empty(batch * queries, device=Q.device, dtype=torch.float32)
        scores_kernel[(triton.cdiv(queries, tile["BLOCK_M"]), batch)](
            Q.contiguous(),
            K.contiguous(),
            weights,
            total,
            queries,
            keys,
            size**-0.5,
            SIZE=size,
            PITCH=pitch,
            KEYS=triton.next_power_of_2(pitch),
            **tile,
        )
        out = torch.empty((*Q.shape[:-1], width), device=Q.device, dtype=Q.dtype)
        tile = TILE["values"]
        product_kernel[(triton.cdiv(queries, tile["BLOCK_M"]) * triton.cdiv(width, tile["BLOCK_N"]), batch)](
            weights,
            V.contiguous(),
            total,
            out,
            queries,
            keys,
            WIDTH=width,
            PITCH=pitch,
            WHOLE=keys == pitch,
            **tile,
        )
        return out
