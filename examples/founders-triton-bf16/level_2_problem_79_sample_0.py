"""Convolution, multiplier, instance normalisation, clamp, multiplier, maximum over the channels, two passes over the
input.

The convolution, a product, is made twice: for the statistics, sums and sums of squares about the mean of a first block
that are joined by Chan's formula, and for the result, of which only the maximum is written. Its bias cancels.

Inputs, weights, outputs and what is multiplied are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"STATS": 128, "POSITIONS": 2048, "BLOCK": 128, "num_warps": 4, "num_stages": 1}


@triton.jit
def convolve(
    x_ptr,
    weight_ptr,
    places,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
):
    """[position, output] of an image, without the bias; places are where the windows begin."""
    taps: tl.constexpr = IN * KERNEL * KERNEL * KERNEL
    o = tl.arange(0, OUTPUTS)
    y = tl.zeros([places.shape[0], OUTPUTS], tl.float32)
    for start in tl.static_range(0, taps, 32):
        k = start + tl.arange(0, 32)
        mask = (k < taps)[:, None] & (o < OUT)[None, :]
        w = tl.load(weight_ptr + o[None, :] * taps + k[:, None], mask=mask, other=0.0)
        k = tl.minimum(k, taps - 1)
        offsets = k // (KERNEL * KERNEL * KERNEL) * DEPTH + k // (KERNEL * KERNEL) % KERNEL
        offsets = (offsets * HEIGHT + k // KERNEL % KERNEL) * WIDTH + k % KERNEL
        x = tl.load(x_ptr + (offsets[:, None] + places[None, :]))
        x = tl.trans(x)
        y = tl.dot(x, w, y)
    return y


@triton.jit
def moments_kernel(
    x_ptr,
    weight_ptr,
    multiplier_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Mean and squared deviations of the channels at POSITIONS of an image, about the mean of the first block."""
    height: tl.constexpr = HEIGHT - KERNEL + 1
    width: tl.constexpr = WIDTH - KERNEL + 1
    n: tl.constexpr = (DEPTH - KERNEL + 1) * height * width
    parts: tl.constexpr = (n + POSITIONS - 1) // POSITIONS
    x_ptr += (tl.program_id(0) // parts).to(tl.int64) * (IN * DEPTH * HEIGHT * WIDTH)
    first = tl.program_id(0) % parts * POSITIONS
    last = min(first + POSITIONS, n)
    o = tl.arange(0, OUTPUTS)
    multiplier = tl.load(multiplier_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)
    shift = tl.zeros([OUTPUTS], tl.float32)
    sums = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    squares = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    for start in range(first, last, BLOCK):
        position = start + tl.arange(0, BLOCK)
        at = tl.minimum(position, n - 1)
        places = (at // (height * width) * HEIGHT + at // width % height) * WIDTH + at % width
        y = convolve(x_ptr, weight_ptr, places, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH, KERNEL)
        y = y * multiplier[None, :]
        there = (position < last)[:, None]
        if start == first:
            shift = tl.sum(tl.where(there, y, 0.0), axis=0) / min(BLOCK, last - first)
        y = tl.where(there, y - shift[None, :], 0.0)
        sums += y
        squares += y * y
    off = tl.sum(sums, axis=0) / (last - first)
    slots = tl.program_id(0) * OUTPUTS + o
    tl.store(mean_ptr + slots, shift + off)
    tl.store(m2_ptr + slots, tl.sum(squares, axis=0) - off * off * (last - first))


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    scale_ptr,
    parts,
    n,
    eps,
    POSITIONS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Means of a sample's channels, and what scales them."""
    o = tl.arange(0, OUTPUTS)
    part = tl.arange(0, PARTS)[:, None]
    counts = tl.minimum(POSITIONS, tl.maximum(n - part * POSITIONS, 0)).to(tl.float32)
    slots = (tl.program_id(0) * parts + part) * OUTPUTS + o[None, :]
    means = tl.load(mean_ptr + slots, mask=part < parts, other=0.0).to(tl.float32)
    m2 = tl.load(m2_ptr + slots, mask=part < parts, other=0.0).to(tl.float32)
    mean = tl.sum(means * (counts / n), axis=0)
    total = tl.sum(m2 + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    slots = tl.program_id(0) * 2 * OUTPUTS + o
    tl.store(scale_ptr + slots, mean)
    tl.store(scale_ptr + slots + OUTPUTS, 1.0 / tl.sqrt(total / n + eps))


@triton.jit
def result_kernel(
    x_ptr,
    weight_ptr,
    multiplier_ptr,
    scale_ptr,
    y_ptr,
    low,
    high,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The maxima over the channels at BLOCK positions of an image."""
    height: tl.constexpr = HEIGHT - KERNEL + 1
    width: tl.constexpr = WIDTH - KERNEL + 1
    n: tl.constexpr = (DEPTH - KERNEL + 1) * height * width
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    image = (tl.program_id(0) // blocks).to(tl.int64)
    position = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    at = tl.minimum(position, n - 1)
    places = (at // (height * width) * HEIGHT + at // width % height) * WIDTH + at % width
    x_ptr += image * (IN * DEPTH * HEIGHT * WIDTH)
    y = convolve(x_ptr, weight_ptr, places, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH, KERNEL)
    o = tl.arange(0, OUTPUTS)
    multiplier = tl.load(multiplier_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    mean = tl.load(scale_ptr + image * 2 * OUTPUTS + o).to(tl.float32)[None, :]
    y = (y * multiplier - mean) * tl.load(scale_ptr + image * 2 * OUTPUTS + OUTPUTS + o).to(tl.float32)[
        None, :
    ]
    y = tl.where(y < low, low, y)
    y = tl.where(y > high, high, y) * multiplier
    y = tl.where((o < OUT)[None, :], y, float("-inf"))
    tl.store(y_ptr + image * n + position, tl.max(y, axis=1), mask=position < n)


class ModelNew(nn.Module):
    """Convolution, learned multiplier, instance norm, clamp, multiplier again, maximum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        multiplier_shape: tuple[int, ...],
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.instance_norm = nn.InstanceNorm3d(out_channels)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv, dict(TILE)
        batch, inputs, depth, height, width = x.shape
        outputs, kernel = conv.out_channels, conv.kernel_size[0]
        shape = {
            "IN": inputs,
            "OUT": outputs,
            "OUTPUTS": max(16, triton.next_power_of_2(outputs)),
            "DEPTH": depth,
            "HEIGHT": height,
            "WIDTH": width,
            "KERNEL": kernel,
        }
        weight = conv.weight.contiguous()
        sizes = (depth - kernel + 1, height - kernel + 1, width - kernel + 1)
        n = sizes[0] * sizes[1] * sizes[2]
        positions, block = tile.pop("POSITIONS"), tile.pop("BLOCK")
        parts = triton.cdiv(n, positions)
        at_once = shape["OUTPUTS"]
        moments = torch.empty((2, batch * parts * at_once), device=x.device, dtype=torch.float32)
        scales = torch.empty(batch * 2 * at_once, device=x.device, dtype=torch.float32)
        stats = tile.pop("STATS")
        moments_kernel[(batch * parts,)](
            x, weight, self.multiplier, *moments, POSITIONS=positions, BLOCK=stats, **shape, **tile
        )
        join_kernel[(batch,)](
            *moments,
            scales,
            parts,
            n,
            self.instance_norm.eps,
            POSITIONS=positions,
            OUTPUTS=at_once,
            PARTS=triton.next_power_of_2(parts),
            num_warps=4,
        )
        y = torch.empty((batch, *sizes), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(n, block),)
        result_kernel[grid](
            x,
            weight,
            self.multiplier,
            scales,
            y,
            self.clamp_min,
            self.clamp_max,
            BLOCK=block,
            **shape,
            **tile,
        )
        return y
