"""Inception block in four kernels that write straight into the concatenated result, with the accuracy of fp32.

One product makes all 1x1 convolutions of x, and lays the two reduced maps out with the channels innermost, as tensor
cores want them for the 3x3 and the 5x5 convolution. Max pooling happens as its 1x1 convolution loads. Eager PyTorch
reads x four times, writes the pooled map, and passes over every branch again for its bias and the concatenation. Each
product is three TF32 products of high and low parts; maps are split in registers, weights beforehand.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "point": {"BLOCK_P": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
    "three": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3},
    "five": {"BLOCK_P": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 4},
    "pool": {"BLOCK_P": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 1},
}


@triton.jit
def high_part(x):
    """The nearest number with the eleven bits that TF32 holds."""
    return ((x.to(tl.int32, bitcast=True) + 0x1000) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def split_kernel(x_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    high = high_part(x)
    tl.store(parts_ptr + offsets, high, mask=offsets < n)
    tl.store(parts_ptr + n + offsets, x - high, mask=offsets < n)


@triton.jit
def add_products(y, x, w_high, w_low):
    """y + x W^T, small terms first."""
    x_high = high_part(x)
    y = tl.dot(x - x_high, tl.trans(w_high), y, input_precision="tf32")
    y = tl.dot(x_high, tl.trans(w_low), y, input_precision="tf32")
    return tl.dot(x_high, tl.trans(w_high), y, input_precision="tf32")


@triton.jit
def point_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    reduced_ptr,
    total,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    DIRECT: tl.constexpr,
    REDUCED: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """1x1 convolutions: the first maps go to the result, the others to a buffer with the channels innermost."""
    first = tl.program_id(0) * BLOCK_N
    out = first + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(2).to(tl.int64)
    x_ptr += sample * CHANNELS * PIXELS
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for start in range(0, CHANNELS, BLOCK_K):
        channel = start + depth
        mask = (pixel < PIXELS)[:, None] & (channel < CHANNELS)[None, :]
        x = tl.load(x_ptr + channel[None, :] * PIXELS + pixel[:, None], mask=mask, other=0.0)
        w_mask = (out < DIRECT + REDUCED)[:, None] & (channel < CHANNELS)[None, :]
        w_ptrs = weight_ptr + out[:, None] * CHANNELS + channel[None, :]
        w_high = tl.load(w_ptrs, mask=w_mask, other=0.0)
        w_low = tl.load(w_ptrs + (DIRECT + REDUCED) * CHANNELS, mask=w_mask, other=0.0)
        y = add_products(y, x, w_high, w_low)
    y += tl.load(bias_ptr + out, mask=out < DIRECT + REDUCED, other=0.0)[None, :]
    inside = (pixel < PIXELS)[:, None]
    if first < DIRECT:
        offsets = sample * total * PIXELS + out[None, :] * PIXELS + pixel[:, None]
        tl.store(out_ptr + offsets, y, mask=inside & (out < DIRECT)[None, :])
    if first + BLOCK_N > DIRECT:
        offsets = (sample * PIXELS + pixel)[:, None] * REDUCED + (out - DIRECT)[None, :]
        kept = (out >= DIRECT) & (out < DIRECT + REDUCED)
        tl.store(reduced_ptr + offsets, y, mask=inside & kept[None, :])


@triton.jit
def spatial_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    STRIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A convolution of maps with the channels innermost, padded to keep their size; weights are (tap, output, input)."""
    pixels: tl.constexpr = HEIGHT * WIDTH
    chunks: tl.constexpr = (CHANNELS + BLOCK_K - 1) // BLOCK_K
    out = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(2).to(tl.int64)
    x_ptr += sample * pixels * STRIDE
    row, column = pixel // WIDTH, pixel % WIDTH
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for step in range(SIZE * SIZE * chunks):
        tap = step // chunks
        channel = step % chunks * BLOCK_K + depth
        down, across = tap // SIZE - SIZE // 2, tap % SIZE - SIZE // 2
        near_row, near_column = row + down, column + across
        near = (near_row >= 0) & (near_row < HEIGHT) & (near_column >= 0) & (near_column < WIDTH)
        within = channel < CHANNELS
        offsets = (pixel + down * WIDTH + across)[:, None] * STRIDE + channel[None, :]
        x = tl.load(x_ptr + offsets, mask=near[:, None] & within[None, :], other=0.0)
        w_mask = (out < OUTS)[:, None] & within[None, :]
        w_ptrs = weight_ptr + (tap * OUTS + out)[:, None] * CHANNELS + channel[None, :]
        w_high = tl.load(w_ptrs, mask=w_mask, other=0.0)
        w_low = tl.load(w_ptrs + SIZE * SIZE * OUTS * CHANNELS, mask=w_mask, other=0.0)
        y = add_products(y, x, w_high, w_low)
    y += tl.load(bias_ptr + out, mask=out < OUTS, other=0.0)[None, :]
    offsets = sample * total * pixels + out[None, :] * pixels + pixel[:, None]
    tl.store(out_ptr + offsets, y, mask=(pixel < pixels)[:, None] & (out < OUTS)[None, :])


@triton.jit
def pool_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    total,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A 1x1 convolution of the largest of every pixel and its eight neighbours."""
    pixels: tl.constexpr = HEIGHT * WIDTH
    out = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(2).to(tl.int64)
    x_ptr += sample * CHANNELS * pixels
    row, column = pixel // WIDTH, pixel % WIDTH
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for start in range(0, CHANNELS, BLOCK_K):
        channel = start + depth
        within = channel < CHANNELS
        top = tl.full([BLOCK_P, BLOCK_K], float("-inf"), tl.float32)
        for tap in tl.static_range(9):
            near_row, near_column = row + (tap // 3 - 1), column + (tap % 3 - 1)
            near = (near_row >= 0) & (near_row < HEIGHT) & (near_column >= 0) & (near_column < WIDTH)
            offsets = channel[None, :] * pixels + (pixel + ((tap // 3 - 1) * WIDTH + tap % 3 - 1))[:, None]
            x = tl.load(x_ptr + offsets, mask=near[:, None] & within[None, :], other=float("-inf"))
            top = tl.maximum(top, x, propagate_nan=tl.PropagateNan.ALL)
        top = tl.where((pixel < pixels)[:, None] & within[None, :], top, 0.0)
        w_mask = (out < OUTS)[:, None] & within[None, :]
        w_ptrs = weight_ptr + out[:, None] * CHANNELS + channel[None, :]
        w_high = tl.load(w_ptrs, mask=w_mask, other=0.0)
        w_low = tl.load(w_ptrs + OUTS * CHANNELS, mask=w_mask, other=0.0)
        y = add_products(y, top, w_high, w_low)
    y += tl.load(bias_ptr + out, mask=out < OUTS, other=0.0)[None, :]
    offsets = sample * total * pixels + out[None, :] * pixels + pixel[:, None]
    tl.store(out_ptr + offsets, y, mask=(pixel < pixels)[:, None] & (out < OUTS)[None, :])


def split(weight: torch.Tensor) -> torch.Tensor:
    """All high parts, then all low parts."""
    weight = weight.contiguous()
    parts = torch.empty((2, *weight.shape), device=weight.device, dtype=weight.dtype)
    split_kernel[(triton.cdiv(weight.numel(), 1024),)](weight, parts, weight.numel(), BLOCK=1024, num_warps=4)
    return parts


class ModelNew(nn.Module):
    """An Inception block of four parallel branches joined along the channels."""

    def __init__(self, in_channels, out_1x1, reduce_3x3, out_3x3, reduce_5x5, out_5x5, pool_proj):
        super().__init__()
        self.branch1x1 = nn.Conv2d(in_channels, out_1x1, kernel_size=1)
        self.branch3x3 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_3x3, kernel_size=1),
            nn.Conv2d(reduce_3x3, out_3x3, kernel_size=3, padding=1),
        )
        self.branch5x5 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_5x5, kernel_size=1),
            nn.Conv2d(reduce_5x5, out_5x5, kernel_size=5, padding=2),
        )
        self.branch_pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        pixels = height * width
        points = [self.branch1x1, self.branch3x3[0], self.branch5x5[0]]
        three, five, pooled = self.branch3x3[1], self.branch5x5[1], self.branch_pool[1]
        direct, reduced = points[0].out_channels, points[1].out_channels + points[2].out_channels
        total = direct + three.out_channels + five.out_channels + pooled.out_channels
        out = torch.empty((batch, total, height, width), device=x.device, dtype=x.dtype)
        buffer = torch.empty((batch, height, width, reduced), device=x.device, dtype=x.dtype)
        tile = TILE["point"]
        point_kernel[
            (triton.cdiv(direct + reduced, tile["BLOCK_N"]), triton.cdiv(pixels, tile["BLOCK_P"]), batch)
        ](
            x,
            split(torch.cat([conv.weight.flatten(1) for conv in points])),
            torch.cat([conv.bias for conv in points]),
            out,
            buffer,
            total,
            PIXELS=pixels,
            CHANNELS=channels,
            DIRECT=direct,
            REDUCED=reduced,
            **tile,
        )
        before, first = 0, direct
        for conv, tile in ((three, TILE["three"]), (five, TILE["five"])):
            outs = conv.out_channels
            spatial_kernel[(triton.cdiv(outs, tile["BLOCK_N"]), triton.cdiv(pixels, tile["BLOCK_P"]), batch)](
                buffer[..., before:],
                split(conv.weight.permute(2, 3, 0, 1)),
                conv.bias,
                out[:, first:],
                total,
                HEIGHT=height,
                WIDTH=width,
                STRIDE=reduced,
                CHANNELS=conv.in_channels,
                OUTS=outs,
                SIZE=conv.kernel_size[0],
                **tile,
            )
            before, first = before + conv.in_channels, first + outs
        tile, outs = TILE["pool"], pooled.out_channels
        pool_kernel[(triton.cdiv(outs, tile["BLOCK_N"]), triton.cdiv(pixels, tile["BLOCK_P"]), batch)](
            x,
            split(pooled.weight),
            pooled.bias,
            out[:, first:],
            total,
            HEIGHT=height,
            WIDTH=width,
            CHANNELS=channels,
            OUTS=outs,
            **tile,
        )
        return out
