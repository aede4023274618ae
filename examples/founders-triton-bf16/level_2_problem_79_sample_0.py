"""Convolution, multiplier, instance normalisation, clamp, multiplier, maximum over the channels: two reads.

One program a plane takes mean and squared deviations; the second kernel holds all channels of 128 positions in
registers, normalises them and writes only their maximum.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def plane_moments_kernel(
    y_ptr, conv_bias_ptr, factor_ptr, mean_ptr, m2_ptr, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    plane = tl.program_id(0).to(tl.int64)
    channel = plane % channels
    conv_bias = load(conv_bias_ptr + channel)
    factor = load(factor_ptr + channel)
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    step = 0.0
    for start in range(0, PIXELS, BLOCK):
        mask = start + lanes < PIXELS
        x = load(y_ptr + plane * PIXELS + start + lanes, mask=mask, other=0.0) + conv_bias
        x = x * factor
        step += 1.0
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(mask, 1.0, 0.0)
    center = tl.sum(count * mean, axis=0) / PIXELS
    tl.store(mean_ptr + plane, center)
    tl.store(m2_ptr + plane, tl.sum(m2 + count * (mean - center) * (mean - center), axis=0))


@triton.jit
def channel_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    factor_ptr,
    mean_ptr,
    m2_ptr,
    low,
    high,
    eps,
    channels,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(PIXELS, BLOCK)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.arange(0, CHANNELS)
    inside = rows < channels
    planes = image * channels + rows
    mask = inside[:, None] & (columns[None, :] < PIXELS)
    x = load(y_ptr + planes[:, None] * PIXELS + columns[None, :], mask=mask, other=0.0)
    x += load(conv_bias_ptr + rows, mask=inside, other=0.0)[:, None]
    factor = load(factor_ptr + rows, mask=inside, other=0.0)[:, None]
    mean = load(mean_ptr + planes, mask=inside, other=0.0)[:, None]
    variance = load(m2_ptr + planes, mask=inside, other=0.0)[:, None] / PIXELS
    x = clamp((x * factor - mean) / tl.sqrt(variance + eps), low, high) * factor
    x = tl.where(inside[:, None], x, float("-inf"))
    result = tl.reduce(x, 0, nan_maximum)
    tl.store(out_ptr + image * PIXELS + columns, result, mask=columns < PIXELS)


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
        conv = self.conv
        y = F.conv3d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels = y.shape[:2]
        pixels = y[0, 0].numel()
        moments = torch.empty((2, batch * channels), device=y.device, dtype=torch.float32)
        plane_moments_kernel[(batch * channels,)](
            y, conv.bias, self.multiplier, *moments, channels, PIXELS=pixels, BLOCK=4096, num_warps=8
        )
        out = torch.empty((batch, *y.shape[2:]), device=y.device, dtype=y.dtype)
        channel_kernel[(batch * triton.cdiv(pixels, 128),)](
            y,
            out,
            conv.bias,
            self.multiplier,
            *moments,
            self.clamp_min,
            self.clamp_max,
            self.instance_norm.eps,
            channels,
            PIXELS=pixels,
            CHANNELS=triton.next_power_of_2(channels),
            BLOCK=128,
            num_warps=4,
        )
        return out
