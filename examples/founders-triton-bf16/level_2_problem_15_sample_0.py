"""Transposed convolution, batch normalisation in training mode, minus the mean of each plane: cuDNN, then two reads and one write.

Statistics come from Welford's update, one program a plane, joined by channel with Chan's formula in a tiny
kernel that also updates the running statistics; the shift
of the normalisation cancels against the plane's mean, which is known by then.

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
def apply_kernel(
    y_ptr, conv_bias_ptr, scale_ptr, mean_ptr, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    blocks = tl.cdiv(PIXELS, BLOCK)
    plane = tl.program_id(0) // blocks
    channel = plane % channels
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    offsets = plane.to(tl.int64) * PIXELS + columns
    x = load(y_ptr + offsets, mask=columns < PIXELS) + load(conv_bias_ptr + channel)
    x = (x - load(mean_ptr + plane)) * load(scale_ptr + channel)
    tl.store(y_ptr + offsets, x, mask=columns < PIXELS)


class ModelNew(nn.Module):
    """Transposed convolution, batch norm, subtraction of the spatial mean."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.batch_norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv_transpose
        y = F.conv_transpose3d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels = y.shape[:2]
        pixels = y[0, 0].numel()
        bias = conv.bias if conv.bias is not None else torch.zeros(channels, device=y.device)
        bn = self.batch_norm
        moments = torch.empty((2, batch * channels), device=y.device, dtype=torch.float32)
        scale, shift = torch.empty((2, channels), device=y.device, dtype=torch.float32)
        plane_moments_kernel[(batch * channels,)](
            y, bias, *moments, channels, PIXELS=pixels, BLOCK=4096, num_warps=8
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
        grid = (batch * channels * triton.cdiv(pixels, 2048),)
        apply_kernel[grid](y, bias, scale, moments[0], channels, PIXELS=pixels, BLOCK=2048, num_warps=4)
        return y
