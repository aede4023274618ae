"""Linear layer, logsumexp, leaky ReLU twice, GELU twice, in one kernel.

The product runs on the tensor cores in three TF32 passes (each factor split into a high and a low part), which
keeps the accuracy of fp32; everything after it happens on the accumulator.
Only one number a row and tile is written; a tiny kernel joins them.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
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
    a_ptrs = a_ptr + (rows % M).to(tl.int64)[:, None] * K + depth[None, :]
    w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=depth[None, :] < K - start, other=0.0)
        w = tl.load(w_ptrs, mask=depth[None, :] < K - start, other=0.0)
        x = tl.dot(a, tl.trans(w), x, input_precision="tf32x3")
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    x = tl.where(columns[None, :] < N, x, float("-inf"))
    peak = tl.max(x, axis=1)
    x = tl.log(tl.sum(tl.exp(x - peak[:, None]), axis=1)) + peak
    tl.store(out_ptr + rows.to(tl.int64) * tiles_n + tile_n, x, mask=rows < M)


@triton.jit
def join_kernel(partial_ptr, out_ptr, tiles, TILES: tl.constexpr):
    lanes = tl.arange(0, TILES)
    x = tl.load(partial_ptr + tl.program_id(0) * tiles + lanes, mask=lanes < tiles, other=float("-inf"))
    peak = tl.max(x, axis=0)
    x = tl.log(tl.sum(tl.exp(x - peak), axis=0)) + peak
    x = tl.where(x > 0.0, x, x * 0.0001)  # two leaky ReLUs of slope 0.01
    x = gelu(gelu(x))
    tl.store(out_ptr + tl.program_id(0), x)


class ModelNew(nn.Module):
    """Linear layer, log-sum-exp, leaky ReLU twice, GELU twice."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight = self.linear.weight
        (m, k), n = x.shape, weight.shape[0]
        tiles = triton.cdiv(n, 128)
        partials = torch.empty((m, tiles), device=x.device, dtype=torch.float32)
        grid = (triton.cdiv(m, 128) * triton.cdiv(n, 128),)
        linear_kernel[grid](
            x,
            weight,
            self.linear.bias,
            partials,
            m,
            n,
            K=k,
            BLOCK_M=128,
            BLOCK_N=128,
            BLOCK_K=32,
            GROUP=8,
            num_warps=8,
            num_stages=3,
        )
        out = torch.empty((m, 1), device=x.device, dtype=x.dtype)
        join_kernel[(m,)](partials, out, tiles, TILES=triton.next_power_of_2(tiles), num_warps=1)
        return out
