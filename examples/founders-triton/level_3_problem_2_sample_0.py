"""Shallow, wide multilayer perceptron whose time is the reading of its weights: two kernels a layer.

Products run on the tensor cores with the accuracy of fp32: values are brought to a fixed range by powers of two and
split into two fp16 numbers, high and low, whose three larger products are added up in fp32, small terms apart.
Activations are split row by row between the layers, where bias and ReLU happen as well. Weights are read once,
as they lie, and split in registers: the power of two of a row follows from its first values and leaves room for
4096 times larger ones. Where a row has even larger ones, the tile is computed again with the peaks of its rows.
"""

import torch
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
TILE = 128
PROGRAMS = 132
LONGEST_SUM = 8192
"""Tensor cores round sums towards zero: the error of a sum grows with its length."""


@triton.jit
def split_kernel(
    x_ptr,
    bias_ptr,
    out_ptr,
    unscale_ptr,
    M,
    N: tl.constexpr,
    PADDED: tl.constexpr,
    SPLITS: tl.constexpr,
    RELU: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the partial sums of one row; bias and ReLU unless it is the input; split unless it is the result."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=mask, other=0.0)
    for split in tl.static_range(1, SPLITS):
        x += tl.load(x_ptr + (split * M + row) * N + columns, mask=mask, other=0.0)
    if RELU or LAST:
        x += tl.load(bias_ptr + columns, mask=mask, other=0.0)
    if RELU:
        x = tl.where(x < 0.0, 0.0, x)
    if LAST:
        tl.store(out_ptr + row * N + columns, x, mask=mask)
    else:
        exponent = tl.max(tl.abs(x), axis=0).to(tl.int32, bitcast=True) >> 23
        power = tl.minimum(268 - exponent, 253)
        tl.store(unscale_ptr + row, ((254 - power) << 23).to(tl.float32, bitcast=True))
        x *= (power << 23).to(tl.float32, bitcast=True)
        high = x.to(tl.float16)
        low = (x - high.to(tl.float32)).to(tl.float16)
        tl.store(out_ptr + row * 2 * PADDED + columns, high, mask=columns < PADDED)
        tl.store(out_ptr + row * 2 * PADDED + PADDED + columns, low, mask=columns < PADDED)


@triton.jit
def tile_product(
    w_ptrs,
    parts_ptrs,
    powers_ptrs,
    power,
    count,
    depth,
    K: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Sum over count steps of the products of the weights, scaled by a power of two a row, and the parts."""
    # Through memory, because what follows a reduction is compiled to take the weights through shared memory twice.
    tl.store(powers_ptrs, power)
    tl.debug_barrier()
    scale = (tl.load(powers_ptrs) << 23).to(tl.float32, bitcast=True)
    small = tl.zeros([TILE, TILE], tl.float32)
    large = tl.zeros([TILE, TILE], tl.float32)
    for step in range(0, count):
        if K % DEPTH == 0:
            w = tl.load(w_ptrs)
        else:
            w = tl.load(w_ptrs, mask=depth[None, :] < K - step * DEPTH, other=0.0)
        x_high = tl.load(parts_ptrs)
        x_low = tl.load(parts_ptrs + PADDED)
        w *= scale[:, None]
        high = w.to(tl.float16)
        low = (w - high.to(tl.float32)).to(tl.float16)
        small = tl.dot(low, tl.trans(x_high), small)
        small = tl.dot(high, tl.trans(x_low), small)
        large = tl.dot(high, tl.trans(x_high), large)
        w_ptrs += DEPTH
        parts_ptrs += DEPTH
    return small + large


@triton.jit
def product_kernel(
    w_ptr,
    parts_ptr,
    unscale_ptr,
    bias_ptr,
    out_ptr,
    powers_ptr,
    M,
    N,
    K: tl.constexpr,
    PADDED: tl.constexpr,
    SPLITS: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    BIAS: tl.constexpr,
):
    """One tile of W x^T over one part of the depth."""
    tiles_m = tl.cdiv(M, TILE)
    tile_m, tile_n, split = tl.program_id(0) % tiles_m, tl.program_id(0) // tiles_m, tl.program_id(1)
    rows = tile_n * TILE + tl.arange(0, TILE)
    columns = tile_m * TILE + tl.arange(0, TILE)
    steps: tl.constexpr = (PADDED // DEPTH + SPLITS - 1) // SPLITS
    count = tl.minimum(steps, PADDED // DEPTH - split * steps)
    depth = split * steps * DEPTH + tl.arange(0, DEPTH)
    w_ptrs = w_ptr + (rows % N).to(tl.int64)[:, None] * K + depth[None, :]
    parts_ptrs = parts_ptr + (columns % M).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    powers_ptrs = powers_ptr + (split * tl.num_programs(0) + tl.program_id(0)) * TILE + tl.arange(0, TILE)
    peak = tl.max(tl.abs(tl.load(w_ptrs, mask=depth[None, :] < K, other=0.0)), axis=1)
    power = tl.minimum(256 - (peak.to(tl.int32, bitcast=True) >> 23), 253)
    out = tile_product(w_ptrs, parts_ptrs, powers_ptrs, power, count, depth, K, PADDED, TILE, DEPTH)
    if tl.max(tl.max((out - out != 0.0).to(tl.int32), axis=1), axis=0) != 0:
        for step in range(1, count):
            w = tl.load(w_ptrs + step * DEPTH, mask=depth[None, :] < K - step * DEPTH, other=0.0)
            peak = tl.maximum(peak, tl.max(tl.abs(w), axis=1))
        power = tl.minimum(268 - (peak.to(tl.int32, bitcast=True) >> 23), 253)
        out = tile_product(w_ptrs, parts_ptrs, powers_ptrs, power, count, depth, K, PADDED, TILE, DEPTH)
    out *= ((254 - power) << 23).to(tl.float32, bitcast=True)[:, None]
    out *= tl.load(unscale_ptr + columns % M)[None, :]
    if BIAS:
        out += tl.load(bias_ptr + rows, mask=rows < N, other=0.0)[:, None]
    offsets = (split * M + columns).to(tl.int64)[None, :] * N + rows[:, None]
    tl.store(out_ptr + offsets, out, mask=(rows[:, None] < N) & (columns[None, :] < M))


def split(x: torch.Tensor, bias: torch.Tensor | None, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum the partial sums in x (splits * m, k), with bias and ReLU if given a bias; fp16 parts and unscaling a row."""
    m, k = len(x) // splits, x.shape[1]
    padded = triton.cdiv(k, DEPTH) * DEPTH
    parts = torch.empty((m, 2 * padded), device=x.device, dtype=torch.float16)
    unscale = torch.empty(m, device=x.device, dtype=torch.float32)
    split_kernel[(m,)](
        x,
        x if bias is None else bias,
        parts,
        unscale,
        m,
        N=k,
        PADDED=padded,
        SPLITS=splits,
        RELU=bias is not None,
        LAST=False,
        BLOCK=triton.next_power_of_2(padded),
        num_warps=4 if padded <= 2048 else 16,
    )
    return parts, unscale


def product(
    parts: torch.Tensor, unscale: torch.Tensor, layer: nn.Linear, splits: int, *, bias: bool
) -> torch.Tensor:
    """Partial sums of x W^T, one under the other; with bias only where there is one part."""
    m, (n, k) = len(parts), layer.weight.shape
    tiles_m = triton.cdiv(m, TILE)
    tiles = tiles_m * triton.cdiv(n, TILE)
    out = torch.empty((splits * m, n), device=parts.device, dtype=torch.float32)
    powers = torch.empty(splits * tiles * TILE, device=parts.device, dtype=torch.int32)
    product_kernel[(tiles, splits)](
        layer.weight,
        parts,
        unscale,
        layer.bias,
        out,
        powers,
        m,
        n,
        K=k,
        PADDED=parts.shape[1] // 2,
        SPLITS=splits,
        TILE=TILE,
        DEPTH=DEPTH,
        BIAS=bias,
        num_warps=8,
        num_stages=3,
    )
    return out


def splits_of(m: int, layer: nn.Linear) -> int:
    """How many parts of the depth give every multiprocessor a tile, and keep a sum's rounding small."""
    n, k = layer.weight.shape
    tiles = triton.cdiv(m, TILE) * triton.cdiv(n, TILE)
    return max(triton.cdiv(k, LONGEST_SUM), min(PROGRAMS // tiles, triton.cdiv(k, DEPTH) // 4))


class ModelNew(nn.Module):
    """Linear and ReLU alternating over a few very wide hidden layers, closed by a linear layer."""

    def __init__(self, input_size, hidden_layer_sizes, output_size):
        super().__init__()
        layers = []
        width = input_size
        for hidden_size in hidden_layer_sizes:
            layers += [nn.Linear(width, hidden_size), nn.ReLU()]
            width = hidden_size
        layers.append(nn.Linear(width, output_size))
        self.network = nn.Sequential(*layers)

    def forward(self, x):
        *hidden, last = [layer for layer in self.network if isinstance(layer, nn.Linear)]
        x, bias, splits = x.contiguous(), None, 1
        m = len(x)
        for layer in hidden:
            parts, unscale = split(x, bias, splits)
            splits, bias = splits_of(m, layer), layer.bias
            x = product(parts, unscale, layer, splits, bias=False)
        parts, unscale = split(x, bias, splits)
        splits = splits_of(m, last)
        x = product(parts, unscale, last, splits, bias=splits == 1)
        return x if splits == 1 else close(x, last, splits)


def close(x: torch.Tensor, layer: nn.Linear, splits: int) -> torch.Tensor:
    """The partial sums' sum and the bias."""
    m, n = len(x) // splits, x.shape[1]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    split_kernel[(m,)](
        x,
        layer.bias,
        out,
        out,
        m,
        N=n,
        PADDED=n,
        SPLITS=splits,
        RELU=False,
        LAST=True,
        BLOCK=triton.next_power_of_2(n),
        num_warps=4 if n <= 2048 else 16,
    )
    return out
