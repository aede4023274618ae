"""Convolution, instance normalisation, division with channels last, as cuDNN convolves fastest: one pass lays the
input out so, one takes moments of the result in blocks of pixels, joined by Chan's formula, and one normalises and
takes it back. A constant added to a plane cancels in its normalisation, so the convolution's bias is left out.

Inputs, weights and outputs are bf16, and so is what cuDNN makes; all after it is fp32 until it is written.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 128, "CHANNELS": 32, "SUMMED": 256, "num_warps": 4}


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
    x = tl.load(x_ptr + first + c * S + s, mask=there).to(tl.float32)
    tl.store(last_ptr + first + s * C + c, x, mask=there)


@triton.jit
def moments_kernel(
    last_ptr,
    mean_ptr,
    m2_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean and sum of squared deviations of a block of pixels, for each channel."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    start = (tl.program_id(0) % blocks) * BLOCK_S
    s = start + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    there = (s < S) & (c < C)[None, :]
    x = tl.load(last_ptr + first + s * C + c[None, :], mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / tl.minimum(S - start, BLOCK_S)
    centered = tl.where(there, x - mean[None, :], 0.0)
    tl.store(mean_ptr + tl.program_id(0) * C + c, mean, mask=c < C)
    tl.store(m2_ptr + tl.program_id(0) * C + c, tl.sum(centered * centered, axis=0), mask=c < C)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    center_ptr,
    scale_ptr,
    eps,
    divisor,
    blocks,
    C: tl.constexpr,
    S: tl.constexpr,
    SUMMED: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The blocks of an image together: each channel's mean, and what its deviations are multiplied by."""
    image = tl.program_id(0)
    b = tl.arange(0, BLOCK)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros([BLOCK, BLOCK_C], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = (start + b < blocks) & (c < C)[None, :]
        count = tl.minimum(S - (start + b) * SUMMED, SUMMED)
        at = (image * blocks + start + b) * C + c[None, :]
        total += count * tl.load(mean_ptr + at, mask=there, other=0.0).to(tl.float32)
    center = tl.sum(total, axis=0) / S
    total = tl.zeros([BLOCK, BLOCK_C], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = (start + b < blocks) & (c < C)[None, :]
        count = tl.minimum(S - (start + b) * SUMMED, SUMMED)
        at = (image * blocks + start + b) * C + c[None, :]
        apart = tl.load(mean_ptr + at, mask=there, other=0.0).to(tl.float32) - center[None, :]
        m2 = tl.load(m2_ptr + at, mask=there, other=0.0).to(tl.float32) + count * apart * apart
        total += tl.where(there, m2, 0.0)
    scale = 1.0 / (tl.sqrt(tl.sum(total, axis=0) / S + eps) * divisor)
    tl.store(center_ptr + image * C + c, center, mask=c < C)
    tl.store(scale_ptr + image * C + c, scale, mask=c < C)


@triton.jit
def epilogue_kernel(
    last_ptr,
    center_ptr,
    scale_ptr,
    y_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The normalised image, from [S, C] to [C, S]."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    first = image * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    center = tl.load(center_ptr + image * C + c, mask=c < C).to(tl.float32)
    scale = tl.load(scale_ptr + image * C + c, mask=c < C).to(tl.float32)
    x = tl.load(last_ptr + first + s * C + c, mask=there).to(tl.float32)
    tl.store(y_ptr + first + c * S + s, (x - center) * scale, mask=there)


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
    """Convolution, instance norm, division."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divide_by: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.instance_norm = nn.InstanceNorm2d(out_channels)
        self.divide_by = divide_by
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv, dict(TILE)
        block_s, block_c, summed = (tile.pop(name) for name in ("PIXELS", "CHANNELS", "SUMMED"))
        last = F.conv2d(channels_last(x), conv.weight, None, conv.stride, conv.padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        pixels = height * width
        blocks = triton.cdiv(pixels, summed)
        moments = torch.empty((2, batch * blocks, channels), device=x.device, dtype=torch.float32)
        center, scale = torch.empty((2, batch, channels), device=x.device, dtype=torch.float32)
        moments_kernel[(batch * blocks, triton.cdiv(channels, 32))](
            last, *moments, C=channels, S=pixels, BLOCK_S=summed, BLOCK_C=32, **tile
        )
        join_kernel[(batch, triton.cdiv(channels, 16))](
            *moments,
            center,
            scale,
            self.instance_norm.eps,
            self.divide_by,
            blocks,
            C=channels,
            S=pixels,
            SUMMED=summed,
            BLOCK=64,
            BLOCK_C=16,
            num_warps=4,
        )
        y = torch.empty((batch, channels, height, width), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(pixels, block_s), triton.cdiv(channels, block_c))
        epilogue_kernel[grid](
            last, center, scale, y, C=channels, S=pixels, BLOCK_S=block_s, BLOCK_C=block_c, **tile
        )
        return y
