"""Transposed convolution, batch normalisation in training mode, tanh, max pooling, group normalisation.

After cuDNN there are two reads and one write: statistics by Welford's update, one program a plane; then a program
a group pools its normalised planes into registers, where the group norm finds all that it needs.

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
def plane_moments_kernel(
    y_ptr, conv_bias_ptr, mean_ptr, m2_ptr, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    plane = tl.program_id(0).to(tl.int64)
    channel = plane % channels
    conv_bias = load(conv_bias_ptr + channel)
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    step = 0.0
    for start in range(0, PIXELS, BLOCK):
        mask = start + lanes < PIXELS
        x = load(y_ptr + plane * PIXELS + start + lanes, mask=mask, other=0.0) + conv_bias
        step += 1.0
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(mask, 1.0, 0.0)
    center = tl.sum(count * mean, axis=0) / PIXELS
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
def pool_norm_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    scale_ptr,
    shift_ptr,
    weight_ptr,
    bias_ptr,
    channels,
    groups,
    eps,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    MEMBERS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image, group = (tl.program_id(0) // groups).to(tl.int64), tl.program_id(0) % groups
    pixels: tl.constexpr = (HEIGHT // 2) * (WIDTH // 2)
    members = tl.arange(0, CHANNELS)
    inside = members < MEMBERS
    channel = group * MEMBERS + members
    outs = tl.arange(0, BLOCK)
    row, column = outs // (WIDTH // 2), outs % (WIDTH // 2)
    mask = inside[:, None] & (outs[None, :] < pixels)
    scale = load(scale_ptr + channel, mask=inside, other=0.0)
    shift = load(shift_ptr + channel, mask=inside, other=0.0)
    shift += load(conv_bias_ptr + channel, mask=inside, other=0.0) * scale
    planes = (image * channels + channel)[:, None]
    first = planes * (HEIGHT * WIDTH) + (row * 2 * WIDTH + column * 2)[None, :]
    best = tl.full([CHANNELS, BLOCK], float("-inf"), tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            x = load(y_ptr + first + i * WIDTH + j, mask=mask, other=0.0) * scale[:, None] + shift[:, None]
            best = tl.maximum(best, x, propagate_nan=tl.PropagateNan.ALL)
    best = tl.where(mask, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * best)), 0.0)
    n: tl.constexpr = MEMBERS * pixels
    best = tl.where(mask, best - tl.sum(tl.sum(best, axis=1), axis=0) / n, 0.0)
    variance = tl.sum(tl.sum(best * best, axis=1), axis=0) / n
    weight = load(weight_ptr + channel, mask=inside, other=0.0) / tl.sqrt(variance + eps)
    bias = load(bias_ptr + channel, mask=inside, other=0.0)
    result = best * weight[:, None] + bias[:, None]
    tl.store(out_ptr + planes * pixels + outs[None, :], result, mask=mask)


class ModelNew(nn.Module):
    """Transposed convolution, batch norm, tanh, max pooling, group norm."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        groups: int,
        num_groups: int,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.batch_norm = nn.BatchNorm2d(out_channels)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, bn, norm = self.conv_transpose, self.batch_norm, self.group_norm
        y = F.conv_transpose2d(x, conv.weight, None, conv.stride, conv.padding, conv.output_padding)
        batch, channels, height, width = y.shape
        pixels = height * width
        moments = torch.empty((2, batch * channels), device=y.device, dtype=torch.float32)
        scale, shift = torch.empty((2, channels), device=y.device, dtype=torch.float32)
        plane_moments_kernel[(batch * channels,)](
            y, conv.bias, *moments, channels, PIXELS=pixels, BLOCK=1024, num_warps=4
        )
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
        out = torch.empty((batch, channels, height // 2, width // 2), device=y.device, dtype=y.dtype)
        members = channels // norm.num_groups
        pool_norm_kernel[(batch * norm.num_groups,)](
            y,
            out,
            conv.bias,
            scale,
            shift,
            norm.weight,
            norm.bias,
            channels,
            norm.num_groups,
            norm.eps,
            HEIGHT=height,
            WIDTH=width,
            MEMBERS=members,
            CHANNELS=triton.next_power_of_2(members),
            BLOCK=triton.next_power_of_2(out[0, 0].numel()),
            num_warps=8,
        )
        return out
