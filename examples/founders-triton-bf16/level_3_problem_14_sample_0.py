"""DenseNet block in training mode: one kernel a layer, written where the concatenation wants it.

A layer's 3x3 convolution applies its batch norm and ReLU as it loads and also computes the moments of the channels
that it adds. So each channel's moments are found once, and no normalised or concatenated map is ever written; eager
PyTorch does all of that anew for the whole concatenation in every layer.

Inputs, weights, maps and what is multiplied are bf16; sums and moments are fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_P": 256, "BLOCK_K": 16, "num_warps": 4, "num_stages": 3}


@triton.jit
def copy_kernel(
    x_ptr, out_ptr, mean_ptr, m2_ptr, count_ptr, channels, total, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    """Copy a part of a plane to its place in the result, and its moments."""
    plane = tl.program_id(1)
    sample, channel = plane // channels, plane % channels
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < PIXELS
    x = tl.load(x_ptr + plane.to(tl.int64) * PIXELS + lanes, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + (sample.to(tl.int64) * total + channel) * PIXELS + lanes, x, mask=mask)
    count = tl.minimum(PIXELS - tl.program_id(0) * BLOCK, BLOCK).to(tl.float32)
    mean = tl.sum(x, axis=0) / count
    rest = tl.where(mask, x - mean, 0.0)
    slots = tl.num_programs(0) * (tl.num_programs(1) // channels)
    slot = channel * slots + sample * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, mean)
    tl.store(m2_ptr + slot, tl.sum(rest * rest, axis=0))
    tl.store(count_ptr + slot, count)


@triton.jit
def join_kernel(mean_ptr, m2_ptr, count_ptr, moments_ptr, first, slots, BLOCK: tl.constexpr):
    """Join the moments of a channel's parts: mean, variance, and the variance that running statistics take."""
    channel = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < slots
    means = tl.load(mean_ptr + channel * slots + lanes, mask=mask, other=0.0)
    m2 = tl.load(m2_ptr + channel * slots + lanes, mask=mask, other=0.0)
    counts = tl.load(count_ptr + channel * slots + lanes, mask=mask, other=0.0)
    count = tl.sum(counts, axis=0)
    mean = tl.sum(counts * means, axis=0) / count
    total = tl.sum(m2 + counts * (means - mean) * (means - mean), axis=0)
    moments_ptr += (first + channel) * 3
    tl.store(moments_ptr, mean)
    tl.store(moments_ptr + 1, total / count)
    tl.store(moments_ptr + 2, total / (count - 1))


@triton.jit
def prepare_kernel(
    moments_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    conv_ptr,
    scale_ptr,
    shift_ptr,
    packed_ptr,
    outs,
    channels,
    eps,
    momentum,
    OUTS: tl.constexpr,
):
    """Fold a channel's batch norm to a scale and a shift, and lay its weights out as (tap, output, input)."""
    channel = tl.program_id(0)
    mean = tl.load(moments_ptr + channel * 3)
    scale = tl.load(weight_ptr + channel).to(tl.float32) / tl.sqrt(
        tl.load(moments_ptr + channel * 3 + 1) + eps
    )
    tl.store(scale_ptr + channel, scale)
    tl.store(shift_ptr + channel, tl.load(bias_ptr + channel).to(tl.float32) - mean * scale)
    old_mean = tl.load(running_mean_ptr + channel).to(tl.float32)
    old_var = tl.load(running_var_ptr + channel).to(tl.float32)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean))
    tl.store(
        running_var_ptr + channel, old_var + momentum * (tl.load(moments_ptr + channel * 3 + 2) - old_var)
    )
    if channel == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)
    out = tl.arange(0, OUTS)
    for tap in range(9):
        w = tl.load(conv_ptr + (out * channels + channel) * 9 + tap, mask=out < outs, other=0.0)
        tl.store(packed_ptr + (tap * outs + out) * channels + channel, w, mask=out < outs)


@triton.jit
def layer_kernel(
    x_ptr,
    packed_ptr,
    scale_ptr,
    shift_ptr,
    mean_ptr,
    m2_ptr,
    count_ptr,
    outs,
    total,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A 3x3 convolution of the first channels, written behind them, and the moments of its result."""
    pixels: tl.constexpr = HEIGHT * WIDTH
    chunks: tl.constexpr = (CHANNELS + BLOCK_K - 1) // BLOCK_K
    x_ptr += tl.program_id(1).to(tl.int64) * total * pixels
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    row, column = pixel // WIDTH, pixel % WIDTH
    out = tl.arange(0, OUTS)
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, OUTS], tl.float32)
    for step in range(chunks * 9):
        tap = step % 9
        channel = step // 9 * BLOCK_K + depth
        down, across = tap // 3 - 1, tap % 3 - 1
        near_row, near_column = row + down, column + across
        near = (near_row >= 0) & (near_row < HEIGHT) & (near_column >= 0) & (near_column < WIDTH)
        within = channel < CHANNELS
        inside = near[:, None] & within[None, :]
        offsets = channel[None, :] * pixels + (pixel + down * WIDTH + across)[:, None]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        x = x * tl.load(scale_ptr + channel, mask=within, other=0.0)[None, :]
        x += tl.load(shift_ptr + channel, mask=within, other=0.0)[None, :]
        x = tl.where(inside & (x > 0.0), x, 0.0)
        w_mask = (out < outs)[:, None] & within[None, :]
        w_ptrs = packed_ptr + (tap * outs + out)[:, None] * CHANNELS + channel[None, :]
        w = tl.load(w_ptrs, mask=w_mask, other=0.0)
        y = tl.dot(x.to(w.dtype), tl.trans(w), y)
    y = y.to(x_ptr.dtype.element_ty).to(tl.float32)  # the moments are those of what is written
    kept = out < outs
    here = (pixel < pixels)[:, None]
    tl.store(x_ptr + (CHANNELS + out)[None, :] * pixels + pixel[:, None], y, mask=here & kept[None, :])
    count = tl.minimum(pixels - tl.program_id(0) * BLOCK_P, BLOCK_P).to(tl.float32)
    mean = tl.sum(tl.where(here, y, 0.0), axis=0) / count
    rest = tl.where(here, y - mean[None, :], 0.0)
    slots = tl.num_programs(0) * tl.num_programs(1)
    slot = out * slots + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, mean, mask=kept)
    tl.store(m2_ptr + slot, tl.sum(rest * rest, axis=0), mask=kept)
    tl.store(count_ptr + slot, tl.zeros([OUTS], tl.float32) + count, mask=kept)


def join(parts: torch.Tensor, moments: torch.Tensor, first: int) -> None:
    """Put the joined moments of some channels where those of the result's channels lie."""
    _, channels, slots = parts.shape
    join_kernel[(channels,)](*parts, moments, first, slots, BLOCK=triton.next_power_of_2(slots), num_warps=8)


class ModelNew(nn.Module):
    """A DenseNet block without 1x1 bottleneck convolutions."""

    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            self._layer(num_input_features + index * growth_rate, growth_rate) for index in range(num_layers)
        )
        if growth_rate > 128:
            raise ValueError("this kernel is written for up to 128 new channels a layer")

    @staticmethod
    def _layer(in_features, growth_rate):
        return nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_features, growth_rate, kernel_size=3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        pixels = height * width
        total = channels + sum(layer[2].out_channels for layer in self.layers)
        out = torch.empty((batch, total, height, width), device=x.device, dtype=x.dtype)
        moments = torch.empty((total, 3), device=x.device, dtype=torch.float32)
        blocks = triton.cdiv(pixels, 4096)
        parts = torch.empty((3, channels, batch * blocks), device=x.device, dtype=torch.float32)
        copy_kernel[(blocks, batch * channels)](
            x, out, *parts, channels, total, PIXELS=pixels, BLOCK=4096, num_warps=8
        )
        join(parts, moments, 0)
        for layer in self.layers:
            norm, conv = layer[0], layer[2]
            if not norm.training or norm.momentum is None or norm.running_mean is None:
                raise ValueError(
                    "this kernel is written for batch norms in training mode with running statistics"
                )
            channels, outs = conv.in_channels, conv.out_channels
            width_of_outs = max(16, triton.next_power_of_2(outs))
            scale, shift = torch.empty((2, channels), device=x.device, dtype=torch.float32)
            packed = torch.empty((9, outs, channels), device=x.device, dtype=x.dtype)
            prepare_kernel[(channels,)](
                moments,
                norm.weight,
                norm.bias,
                norm.running_mean,
                norm.running_var,
                norm.num_batches_tracked,
                conv.weight,
                scale,
                shift,
                packed,
                outs,
                channels,
                norm.eps,
                norm.momentum,
                OUTS=width_of_outs,
                num_warps=1,
            )
            tiles = triton.cdiv(pixels, TILE["BLOCK_P"])
            parts = torch.empty((3, outs, batch * tiles), device=x.device, dtype=torch.float32)
            layer_kernel[(tiles, batch)](
                out,
                packed,
                scale,
                shift,
                *parts,
                outs,
                total,
                HEIGHT=height,
                WIDTH=width,
                CHANNELS=channels,
                OUTS=width_of_outs,
                **TILE,
            )
            join(parts, moments, channels)
        return out
