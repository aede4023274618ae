"""SqueezeNet fire module in one kernel: every map of the result is written once, and nothing else is.

A program computes the squeezed maps of its pixels and of their neighbours from x, which are a few channels only, and
multiplies them once by the weights of both expansions; bias and ReLU happen on the accumulator. Weights and
squeezed maps are brought to a fixed range by a power of two and split into the sum of two fp16 numbers; three products
of these keep the accuracy of fp32, in which cuDNN works on so few channels.
Eager PyTorch writes each expansion, reads it for the bias, the ReLU and the concatenation, and writes it again.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 128, "ROWS": 32, "num_warps": 4, "num_stages": 1}


@triton.jit
def split(x, top):
    """A high and a low fp16 part of x, its top brought to 2^14, and the power of two that undoes it."""
    scale = tl.minimum(268 - (top.to(tl.int32, bitcast=True) >> 23), 253)
    x *= (scale << 23).to(tl.float32, bitcast=True)
    high = x.to(tl.float16)
    return high, (x - high.to(tl.float32)).to(tl.float16), ((254 - scale) << 23).to(tl.float32, bitcast=True)


@triton.jit
def pack_kernel(
    one_ptr,
    one_bias_ptr,
    three_ptr,
    three_bias_ptr,
    weight_ptr,
    unscale_ptr,
    bias_ptr,
    SQUEEZED: tl.constexpr,
    ONES: tl.constexpr,
    THREES: tl.constexpr,
    OUT: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Lay the weights of both expansions out as (output, tap, input), with zeros where there are none: high and low parts."""
    out = tl.program_id(0)
    depth = tl.arange(0, DEPTH)
    tap, channel = depth // SQUEEZED, depth % SQUEEZED
    spatial = out - ONES
    is_one = (out < ONES) & (tap == 4)
    is_three = (out >= ONES) & (out < ONES + THREES) & (tap < 9)
    w = tl.load(one_ptr + out * SQUEEZED + channel, mask=is_one, other=0.0)
    w += tl.load(three_ptr + (spatial * SQUEEZED + channel) * 9 + tap, mask=is_three, other=0.0)
    high, low, unscale = split(w, tl.max(tl.abs(w), axis=0))
    tl.store(weight_ptr + out * DEPTH + depth, high)
    tl.store(weight_ptr + (OUT + out) * DEPTH + depth, low)
    tl.store(unscale_ptr + out, unscale)
    bias = tl.load(one_bias_ptr + out, mask=out < ONES, other=0.0)
    bias += tl.load(three_bias_ptr + spatial, mask=(out >= ONES) & (out < ONES + THREES), other=0.0)
    tl.store(bias_ptr + out, bias)


@triton.jit
def fire_kernel(
    x_ptr,
    squeeze_ptr,
    squeeze_bias_ptr,
    weight_ptr,
    unscale_ptr,
    bias_ptr,
    out_ptr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SQUEEZED: tl.constexpr,
    OUTS: tl.constexpr,
    OUT: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    sample = tl.program_id(2).to(tl.int64)
    x_ptr += sample * CHANNELS * HEIGHT * WIDTH
    out_ptr += sample * OUTS * HEIGHT * WIDTH
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    tap, channel = depth // SQUEEZED, depth % SQUEEZED
    shift_row, shift_column = tap // 3 - 1, tap % 3 - 1
    near = columns[None, :] + shift_column[:, None]
    across = (near >= 0) & (near < WIDTH) & (tap < 9)[:, None]
    outs = tl.arange(0, OUT)
    weight_ptrs = weight_ptr + outs[:, None] * DEPTH + depth[None, :]
    weight_high = tl.load(weight_ptrs)
    weight_low = tl.load(weight_ptrs + OUT * DEPTH)
    weight_unscale = tl.load(unscale_ptr + outs)
    bias = tl.load(bias_ptr + outs)
    squeeze_bias = tl.load(squeeze_bias_ptr + channel)
    kept = (outs < OUTS)[:, None] & (columns < WIDTH)[None, :]
    for step in range(ROWS):
        row = tl.program_id(1) * ROWS + step
        near_row = row + shift_row
        inside = across & ((near_row >= 0) & (near_row < HEIGHT))[:, None]
        offsets = near_row[:, None] * WIDTH + near
        squeezed = tl.zeros([DEPTH, BLOCK], tl.float32) + squeeze_bias[:, None]
        for source in tl.static_range(CHANNELS):
            x = tl.load(x_ptr + source * HEIGHT * WIDTH + offsets, mask=inside, other=0.0)
            squeezed += x * tl.load(squeeze_ptr + channel * CHANNELS + source)[:, None]
        squeezed = tl.where((squeezed < 0.0) | (inside == 0), 0.0, squeezed)
        high, low, unscale = split(squeezed, tl.max(tl.max(squeezed, axis=0), axis=0))
        y = tl.dot(weight_low, high)
        y = tl.dot(weight_high, low, y)
        y = tl.dot(weight_high, high, y)
        y = y * (weight_unscale * unscale)[:, None] + bias[:, None]
        y = tl.where(y < 0.0, 0.0, y)
        tl.store(
            out_ptr + outs[:, None] * (HEIGHT * WIDTH) + row * WIDTH + columns[None, :],
            y,
            mask=kept & (row < HEIGHT),
        )


class ModelNew(nn.Module):
    """A squeezing 1x1 convolution followed by parallel 1x1 and 3x3 expansions."""

    def __init__(self, in_channels, squeeze_channels, expand1x1_channels, expand3x3_channels):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze_channels, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_channels, expand1x1_channels, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_channels, expand3x3_channels, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)
        if in_channels > 16 or 9 * squeeze_channels > 128 or expand1x1_channels + expand3x3_channels > 256:
            raise ValueError("this kernel is written for few channels")

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        squeezed = self.squeeze.out_channels
        ones, threes = self.expand1x1.out_channels, self.expand3x3.out_channels
        outs = max(16, triton.next_power_of_2(ones + threes))
        depth = max(16, triton.next_power_of_2(9 * squeezed))
        weight = torch.empty((2, outs, depth), device=x.device, dtype=torch.float16)
        unscale = torch.empty(outs, device=x.device, dtype=x.dtype)
        bias = torch.empty(outs, device=x.device, dtype=x.dtype)
        pack_kernel[(outs,)](
            self.expand1x1.weight,
            self.expand1x1.bias,
            self.expand3x3.weight,
            self.expand3x3.bias,
            weight,
            unscale,
            bias,
            SQUEEZED=squeezed,
            ONES=ones,
            THREES=threes,
            OUT=outs,
            DEPTH=depth,
            num_warps=1,
        )
        out = torch.empty((batch, ones + threes, height, width), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(width, TILE["BLOCK"]), triton.cdiv(height, TILE["ROWS"]), batch)
        fire_kernel[grid](
            x,
            self.squeeze.weight,
            self.squeeze.bias,
            weight,
            unscale,
            bias,
            out,
            HEIGHT=height,
            WIDTH=width,
            CHANNELS=channels,
            SQUEEZED=squeezed,
            OUTS=ones + threes,
            OUT=outs,
            DEPTH=depth,
            **TILE,
        )
        return out
