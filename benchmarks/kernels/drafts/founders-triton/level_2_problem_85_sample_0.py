"""Convolution, group normalisation, scale, max pooling, clamp with channels last, as cuDNN convolves fastest: one pass
lays the input out so, one takes moments of the result in blocks of pixels, joined by Chan's formula, and one
normalises, pools and takes it back.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 32, "CHANNELS": 32, "SUMMED": 256, "num_warps": 4}


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
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def moments_kernel(
    last_ptr,
    conv_bias_ptr,
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
    x = tl.load(last_ptr + first + s * C + c[None, :], mask=there, other=0.0)
    mean = tl.sum(x, axis=0) / tl.minimum(S - start, BLOCK_S)
    centered = tl.where(there, x - mean[None, :], 0.0)
    mean += tl.load(conv_bias_ptr + c, mask=c < C, other=0.0)
    tl.store(mean_ptr + tl.program_id(0) * C + c, mean, mask=c < C)
    tl.store(m2_ptr + tl.program_id(0) * C + c, tl.sum(centered * centered, axis=0), mask=c < C)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    conv_bias_ptr,
    factor_ptr,
    scale_ptr,
    shift_ptr,
    eps,
    blocks,
    groups,
    C: tl.constexpr,
    S: tl.constexpr,
    SUMMED: tl.constexpr,
    BLOCK: tl.constexpr,
    MEMBERS: tl.constexpr,
):
    """The blocks of a group's channels together: what then becomes of each channel."""
    members = C // groups
    image = tl.program_id(0) // groups
    b = tl.arange(0, BLOCK)[:, None]
    member = tl.arange(0, MEMBERS)
    inside = member < members
    c = (tl.program_id(0) % groups) * members + member
    total = tl.zeros([BLOCK, MEMBERS], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = (start + b < blocks) & inside[None, :]
        count = tl.minimum(S - (start + b) * SUMMED, SUMMED)
        at = (image * blocks + start + b) * C + c[None, :]
        total += count * tl.load(mean_ptr + at, mask=there, other=0.0)
    center = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    total = tl.zeros([BLOCK, MEMBERS], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = (start + b < blocks) & inside[None, :]
        count = tl.minimum(S - (start + b) * SUMMED, SUMMED)
        at = (image * blocks + start + b) * C + c[None, :]
        apart = tl.load(mean_ptr + at, mask=there, other=0.0) - center
        m2 = tl.load(m2_ptr + at, mask=there, other=0.0) + count * apart * apart
        total += tl.where(there, m2, 0.0)
    variance = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    scale = tl.load(weight_ptr + c, mask=inside) / tl.sqrt(variance + eps)
    shift = tl.load(bias_ptr + c, mask=inside) - center * scale
    factor = tl.load(factor_ptr + c, mask=inside)
    scale *= factor
    shift = shift * factor + tl.load(conv_bias_ptr + c, mask=inside) * scale
    tl.store(scale_ptr + image * C + c, scale, mask=inside)
    tl.store(shift_ptr + image * C + c, shift, mask=inside)


@triton.jit
def pool_kernel(
    last_ptr,
    scale_ptr,
    shift_ptr,
    out_ptr,
    low,
    high,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The normalised image's windows, from [HEIGHT * WIDTH, C] to [C, n]."""
    n = (HEIGHT // WINDOW) * (WIDTH // WINDOW)
    blocks = tl.cdiv(n, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < n) & (c < C)
    row, column = s // (WIDTH // WINDOW), s % (WIDTH // WINDOW)
    first = last_ptr + image * HEIGHT * WIDTH * C + (row * WIDTH + column) * WINDOW * C + c
    scale = tl.load(scale_ptr + image * C + c, mask=c < C)
    shift = tl.load(shift_ptr + image * C + c, mask=c < C)
    result = tl.full([BLOCK_S, BLOCK_C], float("-inf"), tl.float32)
    for i in range(WINDOW):
        for j in tl.static_range(WINDOW):
            x = tl.load(first + (i * WIDTH + j) * C, mask=there)
            result = nan_maximum(result, x * scale + shift)
    tl.store(out_ptr + image * n * C + c * n + s, clamp(result, low, high), mask=there)


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
    """Convolution, group norm, learned scale, max pooling, clamp."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        num_groups: int,
        scale_shape: tuple[int, ...],
        maxpool_kernel_size: int,
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.maxpool = nn.MaxPool2d(kernel_size=maxpool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile, window = self.conv, dict(TILE), self.maxpool.kernel_size
        block_s, block_c, summed = (tile.pop(name) for name in ("PIXELS", "CHANNELS", "SUMMED"))
        last = F.conv2d(channels_last(x), conv.weight, None, conv.stride, conv.padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        norm, pixels = self.group_norm, height * width
        blocks = triton.cdiv(pixels, summed)
        moments = torch.empty((2, batch * blocks, channels), device=x.device, dtype=torch.float32)
        scale, shift = torch.empty((2, batch, channels), device=x.device, dtype=torch.float32)
        moments_kernel[(batch * blocks, triton.cdiv(channels, 32))](
            last, conv.bias, *moments, C=channels, S=pixels, BLOCK_S=summed, BLOCK_C=32, **tile
        )
        join_kernel[(batch * norm.num_groups,)](
            *moments,
            norm.weight,
            norm.bias,
            conv.bias,
            self.scale,
            scale,
            shift,
            norm.eps,
            blocks,
            norm.num_groups,
            C=channels,
            S=pixels,
            SUMMED=summed,
            BLOCK=64,
            MEMBERS=triton.next_power_of_2(channels // norm.num_groups),
            num_warps=2,
        )
        out = torch.empty(
            (batch, channels, height // window, width // window), device=x.device, dtype=x.dtype
        )
        grid = (batch * triton.cdiv(out[0, 0].numel(), block_s), triton.cdiv(channels, block_c))
        pool_kernel[grid](
            last,
            scale,
            shift,
            out,
            self.clamp_min,
            self.clamp_max,
            C=channels,
            HEIGHT=height,
            WIDTH=width,
            WINDOW=window,
            BLOCK_S=block_s,
            BLOCK_C=block_c,
            **tile,
        )
        return out
