"""Linear layer, batch normalisation in training mode, bias, division, swish: a product, a read, and a read and write.

The product runs on the tensor cores with the accuracy of fp32: a first pass brings every row to a fixed range by a
power of two and splits each value into two fp16 numbers, high and low, whose three larger products are added up
in fp32, small terms first. Statistics come from Welford's update over chunks of rows, joined by Chan's
formula in a small kernel that also updates the running statistics.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
LONGEST_SUM = 2048
"""Tensor cores round sums towards zero: longer ones are cut, and the parts meet in the output, rounded to nearest."""
CHUNK = 256


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


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
    tl.store(out_ptr + offsets, x, mask=inside)


@triton.jit
def column_moments_kernel(
    y_ptr, mean_ptr, m2_ptr, rows, features, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < features
    lanes = tl.arange(0, ROWS)
    count = tl.zeros([ROWS, COLUMNS], tl.float32)
    mean = tl.zeros([ROWS, COLUMNS], tl.float32)
    m2 = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, CHUNK, ROWS):
        index = tl.program_id(1) * CHUNK + start + lanes
        mask = (index[:, None] < rows) & inside[None, :]
        x = tl.load(y_ptr + index.to(tl.int64)[:, None] * features + columns[None, :], mask=mask, other=0.0)
        count += tl.where(mask, 1.0, 0.0)
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta / tl.maximum(count, 1.0)
        m2 += delta * (x - mean)
    total = tl.sum(count, axis=0)
    center = tl.sum(count * mean, axis=0) / tl.maximum(total, 1.0)
    spread = mean - center[None, :]
    slot = tl.program_id(1) * features + columns
    tl.store(mean_ptr + slot, center, mask=inside)
    tl.store(m2_ptr + slot, tl.sum(m2 + count * spread * spread, axis=0), mask=inside)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    scale_ptr,
    shift_ptr,
    rows,
    features,
    chunks,
    eps,
    momentum,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    column = tl.program_id(0)
    index = tl.arange(0, CHUNKS)
    counts = tl.maximum(tl.minimum(rows - index * CHUNK, CHUNK), 0).to(tl.float32)
    means = tl.load(mean_ptr + index * features + column, mask=index < chunks, other=0.0)
    m2 = tl.load(m2_ptr + index * features + column, mask=index < chunks, other=0.0)
    mean = tl.sum(means * counts, axis=0) / rows
    total = tl.sum(m2 + (means - mean) * (means - mean) * counts, axis=0)
    scale = tl.load(weight_ptr + column) / tl.sqrt(total / rows + eps)
    tl.store(scale_ptr + column, scale)
    tl.store(shift_ptr + column, tl.load(bias_ptr + column) - mean * scale)
    old_mean = tl.load(running_mean_ptr + column)
    old_var = tl.load(running_var_ptr + column)
    tl.store(running_mean_ptr + column, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + column, old_var + momentum * (total / (rows - 1) - old_var))
    if column == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def apply_kernel(y_ptr, scale_ptr, shift_ptr, extra_ptr, divisor, features, BLOCK: tl.constexpr):
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < features
    offsets = tl.program_id(0).to(tl.int64) * features + columns
    x = tl.load(y_ptr + offsets, mask=mask)
    scale = tl.load(scale_ptr + columns, mask=mask)
    shift = tl.load(shift_ptr + columns, mask=mask)
    x = (x * scale + shift + tl.load(extra_ptr)) / divisor
    x = x * sigmoid(x)
    tl.store(y_ptr + offsets, x, mask=mask)


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
    """Linear layer, batch norm, bias, division, swish."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bn_eps: float = 1e-05,
        bn_momentum: float = 0.1,
        bias_shape: tuple[int, ...] = (1,),
        divide_value: float = 1.0,
    ):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.bn = nn.BatchNorm1d(out_features, eps=bn_eps, momentum=bn_momentum)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.divide_value = divide_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        rows, features = len(x), len(self.matmul.weight)
        y = torch.empty((rows, features), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(rows, 128) * triton.cdiv(features, 256),)
        a_parts, a_unscale, padded = split_rows(x, low_first=True)
        w_parts, w_unscale, _ = split_rows(self.matmul.weight, low_first=False)
        linear_kernel[grid](
            a_parts,
            w_parts,
            a_unscale,
            w_unscale,
            self.matmul.bias,
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
        bn = self.bn
        chunks = triton.cdiv(rows, CHUNK)
        moments = torch.empty((2, chunks * features), device=y.device, dtype=torch.float32)
        scale, shift = torch.empty((2, features), device=y.device, dtype=torch.float32)
        column_moments_kernel[(triton.cdiv(features, 128), chunks)](
            y, *moments, rows, features, CHUNK=CHUNK, ROWS=16, COLUMNS=128, num_warps=4
        )
        join_kernel[(features,)](
            *moments,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            scale,
            shift,
            rows,
            features,
            chunks,
            bn.eps,
            bn.momentum,
            CHUNK=CHUNK,
            CHUNKS=triton.next_power_of_2(chunks),
            num_warps=1,
        )
        apply_kernel[(rows, triton.cdiv(features, 1024))](
            y, scale, shift, self.bias, self.divide_value, features, BLOCK=1024, num_warps=4
        )
        return y
