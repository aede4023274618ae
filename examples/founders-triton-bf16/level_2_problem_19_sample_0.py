"""Transposed convolution, GELU, group normalisation with channels last, as cuDNN convolves fastest: one pass
lays the input out so. One takes the moments of the result part by part, from its end to its start, and one
goes back from there, where the L2 cache still holds it, and writes what is normalised with the pixels beside
each other again.

With stride 1 the transposed convolution is one with flipped weights. GELU is ReLU less a small term, of which a
polynomial in 1 / (1 + c |x|) and one exponential are nearer than bf16 can tell (Abramowitz and Stegun, 7.1.26): two
passes would otherwise wait for the error function.

Inputs, weights and outputs are bf16, and so is what cuDNN makes; all after it is fp32 until it is written.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 64, "CHANNELS": 64, "ROWS": 32, "STEPS": 64, "FLIP": True, "num_warps": 4}


@triton.jit
def channels_last_kernel(
    x_ptr, last_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr
):
    """An image's [C, S] into [S, C]."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    there = (s < S) & (c < C)
    x = tl.load(x_ptr + first + c * S + s, mask=there)
    tl.store(last_ptr + first + s * C + c, x, mask=there)


@triton.jit
def gelu(x):
    size = tl.abs(x)
    t = 1.0 / (1.0 + 0.23164189 * size)
    series = 0.127414796 + t * (-0.142248368 + t * (0.710706871 + t * (-0.726576014 + t * 0.530702715)))
    rest = size * t * series * tl.exp2(-0.72134752 * x * x)
    return tl.where(x < 0.0, 0.0, x) - rest


@triton.jit
def moments_kernel(
    last_ptr,
    conv_bias_ptr,
    mean_ptr,
    m2_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The mean of a part of an image and the sum of squares about it, by channel: summed up lane by lane first."""
    parts = tl.cdiv(S, STEPS * BLOCK_S)
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    image, part = program // parts, program % parts
    last_ptr += image.to(tl.int64) * C * S
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C).to(tl.float32)
    count = tl.zeros([BLOCK_S, 1], tl.float32)
    sums = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    squares = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for step in range(STEPS):
        s = (part * STEPS + step) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
        x = tl.load(last_ptr + s * C + c, mask=(s < S) & (c < C), other=0.0).to(tl.float32) + conv_bias
        x = tl.where(s < S, gelu(x), 0.0)
        count += tl.where(s < S, 1.0, 0.0)
        sums += x
        squares += x * x
    mean = sums / tl.maximum(count, 1.0)
    center = tl.sum(sums, axis=0, keep_dims=True) / tl.sum(count)
    spread = squares - mean * sums + count * (mean - center) * (mean - center)
    spread = tl.sum(spread, axis=0, keep_dims=True)
    slots = (image * C + c) * parts + part
    tl.store(mean_ptr + slots, center, mask=c < C)
    tl.store(m2_ptr + slots, spread, mask=c < C)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    scale_ptr,
    shift_ptr,
    groups,
    eps,
    GROUP: tl.constexpr,
    S: tl.constexpr,
    PART: tl.constexpr,
    LANES: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """A group's moments by Chan's formula, and with them the scale and shift of each of its channels."""
    parts: tl.constexpr = (S + PART - 1) // PART
    lanes = tl.arange(0, LANES)
    there = lanes < parts * GROUP
    slots = tl.program_id(0) * GROUP * parts + lanes
    count = tl.where(there, tl.minimum(S - lanes % parts * PART, PART), 0).to(tl.float32)
    means = tl.load(mean_ptr + slots, mask=there, other=0.0)
    m2 = tl.load(m2_ptr + slots, mask=there, other=0.0)
    mean = tl.sum(count * means, axis=0) / (GROUP * S)
    variance = tl.sum(m2 + count * (means - mean) * (means - mean), axis=0) / (GROUP * S)
    channel = tl.arange(0, CHANNELS)
    within = tl.program_id(0) % groups * GROUP + channel
    weight = tl.load(weight_ptr + within, mask=channel < GROUP).to(tl.float32)
    bias = tl.load(bias_ptr + within, mask=channel < GROUP).to(tl.float32)
    scale = weight / tl.sqrt(variance + eps)
    tl.store(scale_ptr + tl.program_id(0) * GROUP + channel, scale, mask=channel < GROUP)
    tl.store(shift_ptr + tl.program_id(0) * GROUP + channel, bias - mean * scale, mask=channel < GROUP)


@triton.jit
def apply_kernel(
    last_ptr,
    conv_bias_ptr,
    scale_ptr,
    shift_ptr,
    y_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """What follows the convolution, from [S, C] to [C, S]."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = tl.program_id(0) // blocks
    first = image.to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C).to(tl.float32)
    scale = tl.load(scale_ptr + image * C + c, mask=c < C)
    shift = tl.load(shift_ptr + image * C + c, mask=c < C)
    x = tl.load(last_ptr + first + s * C + c, mask=there).to(tl.float32) + conv_bias
    x = gelu(x) * scale + shift
    tl.store(y_ptr + first + c * S + s, x, mask=there)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory."""
    batch, channels, height, width = x.shape
    last = torch.empty_like(x, memory_format=torch.channels_last)
    block_c = min(64, triton.next_power_of_2(channels))
    block_s = 4096 // block_c
    grid = (batch * triton.cdiv(height * width, block_s), triton.cdiv(channels, block_c))
    channels_last_kernel[grid](
        x.contiguous(), last, C=channels, S=height * width, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=4
    )
    return last


class ModelNew(nn.Module):
    """Transposed convolution, GELU, group norm."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int, groups: int, num_groups: int
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.conv_transpose.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, norm, tile = self.conv_transpose, self.group_norm, dict(TILE)
        flip = tile.pop("FLIP") and conv.stride == (1, 1) and conv.padding == (0, 0)
        block_s, block_c = tile.pop("PIXELS"), tile.pop("CHANNELS")
        rows, steps = tile.pop("ROWS"), tile.pop("STEPS")
        last = channels_last(x)
        if flip:
            weight = conv.weight.transpose(0, 1).flip(2, 3).contiguous(memory_format=torch.channels_last)
            last = F.conv2d(last, weight, None, 1, conv.kernel_size[0] - 1)
        else:
            last = F.conv_transpose2d(last, conv.weight, None, conv.stride, conv.padding, conv.output_padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        pixels, channel_blocks = height * width, triton.cdiv(channels, block_c)
        group, parts = channels // norm.num_groups, triton.cdiv(pixels, rows * steps)
        moments = torch.empty((2, batch * channels * parts), device=x.device, dtype=torch.float32)
        scale, shift = torch.empty((2, batch * channels), device=x.device, dtype=torch.float32)
        y = torch.empty((batch, channels, height, width), device=x.device, dtype=x.dtype)
        moments_kernel[(batch * parts, channel_blocks)](
            last,
            conv.bias,
            *moments,
            C=channels,
            S=pixels,
            STEPS=steps,
            BLOCK_S=rows,
            BLOCK_C=block_c,
            **tile,
        )
        join_kernel[(batch * norm.num_groups,)](
            *moments,
            norm.weight,
            norm.bias,
            scale,
            shift,
            norm.num_groups,
            norm.eps,
            GROUP=group,
            S=pixels,
            PART=rows * steps,
            LANES=triton.next_power_of_2(group * parts),
            CHANNELS=triton.next_power_of_2(group),
            num_warps=4,
        )
        apply_kernel[(batch * triton.cdiv(pixels, block_s), channel_blocks)](
            last,
            conv.bias,
            scale,
            shift,
            y,
            C=channels,
            S=pixels,
            BLOCK_S=block_s,
            BLOCK_C=block_c,
            **tile,
        )
        return y
