"""Linear layer, instance normalisation of each row, sum and product with a second input.

The product takes three TF32 passes on the tensor cores (each factor split into a high and a low part), which keep
the accuracy of fp32. The normalisation holds its row in registers: one read of both, one write.
"""

import torch
import triton
import triton.language as tl
from torch import nn


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
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(out_ptr + offsets, x, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def row_kernel(x_ptr, y_ptr, eps, features, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < features
    offsets = tl.program_id(0).to(tl.int64) * features + columns
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    x = tl.where(mask, x - tl.sum(x, axis=0) / features, 0.0)
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=0) / features + eps))
    tl.store(x_ptr + offsets, (x + y) * y, mask=mask)


class ModelNew(nn.Module):
    """Linear layer, normalisation of every row, sum and product with a second input."""

    def __init__(self, in_features: int, out_features: int, eps: float = 1e-05, momentum: float = 0.1):
        super().__init__()
        self.bmm = nn.Linear(in_features, out_features)
        self.instance_norm = nn.InstanceNorm2d(out_features, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        (rows, k), features = x.shape, self.bmm.weight.shape[0]
        out = torch.empty((rows, features), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 128) * triton.cdiv(features, 128),)
        linear_kernel[grid](
            x,
            self.bmm.weight,
            self.bmm.bias,
            out,
            rows,
            features,
            K=k,
            BLOCK_M=128,
            BLOCK_N=128,
            BLOCK_K=32,
            GROUP=8,
            num_warps=8,
            num_stages=3,
        )
        block = triton.next_power_of_2(features)
        row_kernel[(rows,)](out, y.contiguous(), self.instance_norm.eps, features, BLOCK=block, num_warps=8)
        return out
