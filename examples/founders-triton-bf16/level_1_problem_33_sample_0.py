"""Batch normalisation in training mode: two reads and one write, statistics by Welford's update.

One program a plane takes mean and squared deviations; a tiny kernel joins the planes of a channel by Chan's
formula, folds weight and bias into a scale and a shift and updates the running statistics; the last kernel
applies them.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
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
def plane_moments_kernel(x_ptr, mean_ptr, m2_ptr, pixels, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    step = 0.0
    for start in range(0, pixels, BLOCK):
        mask = start + lanes < pixels
        x = load(x_ptr + plane * pixels + start + lanes, mask=mask, other=0.0)
        step += 1.0
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(mask, 1.0, 0.0)
    center = tl.sum(count * mean, axis=0) / pixels
    tl.store(mean_ptr + plane, center)
    tl.store(m2_ptr + plane, tl.sum(m2 + count * (mean - center) * (mean - center), axis=0))


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
    batch,
    pixels,
    eps,
    momentum,
    BATCH: tl.constexpr,
):
    channel = tl.program_id(0)
    images = tl.arange(0, BATCH)
    slots = images * tl.num_programs(0) + channel
    means = load(mean_ptr + slots, mask=images < batch, other=0.0)
    m2 = load(m2_ptr + slots, mask=images < batch, other=0.0)
    mean = tl.sum(means, axis=0) / batch
    between = tl.where(images < batch, (means - mean) * (means - mean), 0.0)
    total = tl.sum(m2 + between * pixels, axis=0)
    count = batch * pixels
    scale = load(weight_ptr + channel) / tl.sqrt(total / count + eps)
    tl.store(scale_ptr + channel, scale)
    tl.store(shift_ptr + channel, load(bias_ptr + channel) - mean * scale)
    old_mean = load(running_mean_ptr + channel)
    old_var = load(running_var_ptr + channel)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + channel, old_var + momentum * (total / (count - 1) - old_var))
    if channel == 0:
        tl.store(batches_ptr, load(batches_ptr) + 1)


@triton.jit
def apply_kernel(x_ptr, y_ptr, scale_ptr, shift_ptr, pixels, channels, BLOCK: tl.constexpr):
    blocks = tl.cdiv(pixels, BLOCK)
    plane = tl.program_id(0) // blocks
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    offsets = plane.to(tl.int64) * pixels + columns
    scale = load(scale_ptr + plane % channels)
    shift = load(shift_ptr + plane % channels)
    x = load(x_ptr + offsets, mask=columns < pixels)
    tl.store(y_ptr + offsets, x * scale + shift, mask=columns < pixels)


class ModelNew(nn.Module):
    """Batch normalisation over channels."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, channels = x.shape[:2]
        pixels = x[0, 0].numel()
        y = torch.empty_like(x)
        scale, shift = self.fold(x, batch, channels, pixels)
        grid = (batch * channels * triton.cdiv(pixels, 4096),)
        apply_kernel[grid](x, y, scale, shift, pixels, channels, BLOCK=4096, num_warps=8)
        return y

    def fold(
        self, x: torch.Tensor, batch: int, channels: int, pixels: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        bn = self.bn
        if not bn.training:
            scale = bn.weight * torch.rsqrt(bn.running_var + bn.eps)
            return scale, bn.bias - bn.running_mean * scale
        moments = torch.empty((2, batch * channels), device=x.device, dtype=torch.float32)
        scale, shift = torch.empty((2, channels), device=x.device, dtype=torch.float32)
        plane_moments_kernel[(batch * channels,)](x, *moments, pixels, BLOCK=4096, num_warps=8)
        join_kernel[(channels,)](
            *moments,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            scale,
            shift,
            batch,
            pixels,
            bn.eps,
            bn.momentum,
            BATCH=triton.next_power_of_2(batch),
            num_warps=4,
        )
        return scale, shift
