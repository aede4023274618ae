"""Convolution, Mish, batch normalisation in training mode with channels last, as cuDNN convolves fastest: one
pass lays the input out so. One takes the moments of the result part by part, from its end to its start, and
one goes back from there, where the L2 cache still holds it, and writes what is normalised with the pixels
beside each other again.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 64, "CHANNELS": 64, "ROWS": 32, "STEPS": 16, "num_warps": 4}


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
def mish(x):
    """x * tanh(softplus(x)); with e = exp(x) the hyperbolic tangent is a rational function of e."""
    e = tl.exp(tl.where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return x * n / (n + 2.0)


@triton.jit
def moments_kernel(
    last_ptr,
    conv_bias_ptr,
    mean_ptr,
    m2_ptr,
    rows,
    C: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The mean of a part of the pixels and the sum of squares about it, by channel: Welford's update in every lane."""
    part = tl.num_programs(0) - 1 - tl.program_id(0)
    first = part.to(tl.int64) * STEPS * BLOCK_S
    left = rows - first
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C)
    count = tl.zeros([BLOCK_S, 1], tl.float32)
    mean = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    m2 = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for step in range(STEPS):
        s = step * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
        x = tl.load(last_ptr + first * C + s * C + c, mask=(s < left) & (c < C), other=0.0) + conv_bias
        x = mish(x)
        count += tl.where(s < left, 1.0, 0.0)
        delta = tl.where(s < left, x - mean, 0.0)
        mean += delta * (1.0 / tl.maximum(count, 1.0))
        m2 += delta * (x - mean)
    center = tl.sum(count * mean, axis=0, keep_dims=True) / tl.sum(count)
    spread = tl.sum(m2 + count * (mean - center) * (mean - center), axis=0, keep_dims=True)
    slots = c * tl.num_programs(0) + part
    tl.store(mean_ptr + slots, center, mask=c < C)
    tl.store(m2_ptr + slots, spread, mask=c < C)


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
    parts,
    eps,
    momentum,
    PART: tl.constexpr,
    PARTS: tl.constexpr,
):
    """A channel's moments by Chan's formula, and with them its scale and shift and the running statistics."""
    channel = tl.program_id(0)
    part = tl.arange(0, PARTS)
    count = tl.where(part < parts, tl.minimum(rows - part * PART, PART), 0).to(tl.float32)
    means = tl.load(mean_ptr + channel * parts + part, mask=part < parts, other=0.0)
    m2 = tl.load(m2_ptr + channel * parts + part, mask=part < parts, other=0.0)
    mean = tl.sum(count * means, axis=0) / rows
    total = tl.sum(m2 + count * (means - mean) * (means - mean), axis=0)
    scale = tl.load(weight_ptr + channel) / tl.sqrt(total / rows + eps)
    tl.store(scale_ptr + channel, scale)
    tl.store(shift_ptr + channel, tl.load(bias_ptr + channel) - mean * scale)
    old_mean = tl.load(running_mean_ptr + channel)
    old_var = tl.load(running_var_ptr + channel)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + channel, old_var + momentum * (total / (rows - 1) - old_var))
    if channel == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


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
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C)
    scale = tl.load(scale_ptr + c, mask=c < C)
    shift = tl.load(shift_ptr + c, mask=c < C)
    x = tl.load(last_ptr + first + s * C + c, mask=there) + conv_bias
    x = mish(x) * scale + shift
    tl.store(y_ptr + first + c * S + s, x, mask=there)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory."""
    batch, channels, height, width = x.shape
    last = torch.empty_like(x, memory_format=torch.channels_last)
    block_c = min(32, triton.next_power_of_2(channels))
    block_s = 2048 // block_c
    grid = (batch * triton.cdiv(height * width, block_s), triton.cdiv(channels, block_c))
    channels_last_kernel[grid](
        x.contiguous(), last, C=channels, S=height * width, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=4
    )
    return last


class ModelNew(nn.Module):
    """Convolution, Mish written out, batch norm."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, eps: float = 1e-05, momentum: float = 0.1
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bn = nn.BatchNorm2d(out_channels, eps=eps, momentum=momentum)
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, norm, tile = self.conv, self.bn, dict(TILE)
        block_s, block_c = tile.pop("PIXELS"), tile.pop("CHANNELS")
        rows, steps = tile.pop("ROWS"), tile.pop("STEPS")
        last = F.conv2d(channels_last(x), conv.weight, None, conv.stride, conv.padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        pixels, channel_blocks = height * width, triton.cdiv(channels, block_c)
        parts = triton.cdiv(batch * pixels, rows * steps)
        moments = torch.empty((2, channels * parts), device=x.device, dtype=torch.float32)
        scale, shift = torch.empty((2, channels), device=x.device, dtype=torch.float32)
        y = torch.empty((batch, channels, height, width), device=x.device, dtype=x.dtype)
        moments_kernel[(parts, channel_blocks)](
            last,
            conv.bias,
            *moments,
            batch * pixels,
            C=channels,
            STEPS=steps,
            BLOCK_S=rows,
            BLOCK_C=block_c,
            **tile,
        )
        join_kernel[(channels,)](
            *moments,
            norm.weight,
            norm.bias,
            norm.running_mean,
            norm.running_var,
            norm.num_batches_tracked,
            scale,
            shift,
            batch * pixels,
            parts,
            norm.eps,
            norm.momentum,
            PART=rows * steps,
            PARTS=triton.next_power_of_2(parts),
            num_warps=8,
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
