"""Transposed convolution, both max poolings and the sum over the channels, in one kernel after a packing pass.

No result of the convolution is written, and only those that a pooling window holds are computed. The phases of the
stride are products of their own (pairs along the width share a run of inputs). The packing pass brings every sample
and the weights to a fixed range by a power of two and splits each value into the sum of two fp16 numbers (22 bits);
three products of these keep the accuracy of fp32. A running maximum over the window's positions stays in registers.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_M": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4}


@triton.jit
def top_kernel(x_ptr, top_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """The largest magnitude of every sample, as bits."""
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0).to(tl.int64) * SIZE + offsets, mask=offsets < SIZE, other=0.0)
    tl.atomic_max(top_ptr + tl.program_id(0), tl.max(tl.abs(x).to(tl.int32, bitcast=True), axis=0))


@triton.jit
def scale_bits(top):
    """The exponent of the power of two that brings the largest magnitude to 2^14, which fp16 still holds."""
    return tl.minimum(268 - (top >> 23), 253)


@triton.jit
def pack_input_kernel(
    x_ptr,
    top_ptr,
    out_ptr,
    valid,
    size,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    FRONT_D: tl.constexpr,
    FRONT_H: tl.constexpr,
    FRONT_W: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Put the channels last, with zeros in front of each axis: all high parts, then all low parts."""
    position = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    channel = tl.arange(0, BLOCK_C)
    row = position // (WIDTH + FRONT_W)
    plane = row // (HEIGHT + FRONT_H)
    sample = plane // (DEPTH + FRONT_D)
    w = position % (WIDTH + FRONT_W) - FRONT_W
    h = row % (HEIGHT + FRONT_H) - FRONT_H
    d = plane % (DEPTH + FRONT_D) - FRONT_D
    inside = (position < valid) & (w >= 0) & (h >= 0) & (d >= 0)
    source = sample.to(tl.int64) * (CHANNELS * DEPTH * HEIGHT * WIDTH) + (d * HEIGHT + h) * WIDTH + w
    offsets = channel[:, None].to(tl.int64) * (DEPTH * HEIGHT * WIDTH) + source[None, :]
    x = tl.load(x_ptr + offsets, mask=inside[None, :] & (channel < CHANNELS)[:, None], other=0.0)
    scale = scale_bits(tl.load(top_ptr + sample, mask=inside, other=0))
    x = tl.trans(x * (scale << 23).to(tl.float32, bitcast=True)[None, :])
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    offsets = position.to(tl.int64)[:, None] * PADDED + channel[None, :]
    kept = (position < size)[:, None] & (channel < PADDED)[None, :]
    tl.store(out_ptr + offsets, high, mask=kept)
    tl.store(out_ptr + size.to(tl.int64) * PADDED + offsets, low, mask=kept)


@triton.jit
def pack_weight_kernel(
    w_ptr,
    top_ptr,
    out_ptr,
    OUTPUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A row for each output channel and phase along the width; along it the other phases, 3 x 3 x 3 inputs, channels.

    All high parts come before all low parts."""
    output, phase_w = tl.program_id(0) // 2, tl.program_id(0) % 2
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel, place = k % PADDED, k // PADDED
    phase_d, phase_h = place // 54, place // 27 % 2
    tap_d = 4 + phase_d - 2 * (place // 9 % 3)
    tap_h = 4 + phase_h - 2 * (place // 3 % 3)
    tap_w = 4 + phase_w - 2 * (place % 3)
    mask = (place < 108) & (tap_d < 5) & (tap_h < 5) & (tap_w < 5) & (channel < CHANNELS) & (output < OUTPUTS)
    offsets = (channel * OUTPUTS + output) * 125 + tap_d * 25 + tap_h * 5 + tap_w
    w = tl.load(w_ptr + offsets, mask=mask, other=0.0)
    w *= (scale_bits(tl.load(top_ptr)) << 23).to(tl.float32, bitcast=True)
    high = w.to(tl.float16)
    low = (w - high.to(tl.float32)).to(tl.float16)
    offsets = tl.program_id(0) * (108 * PADDED) + k
    tl.store(out_ptr + offsets, high, mask=place < 108)
    tl.store(out_ptr + tl.num_programs(0) * (108 * PADDED) + offsets, low, mask=place < 108)


@triton.jit
def pool_kernel(
    x_ptr,
    w_ptr,
    x_top_ptr,
    w_top_ptr,
    bias_ptr,
    out_ptr,
    size,
    cells,
    PADDED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS_W: tl.constexpr,
    OUT_D: tl.constexpr,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    PITCH_D: tl.constexpr,
    PITCH_H: tl.constexpr,
    PITCH_W: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A row is a window of 6 x 6 x 6 outputs: 27 places of 8 phases, whose inputs are 3 x 3 x 3 places each."""
    cell = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    row = tl.minimum(cell, cells - 1)
    plane = row // (OUT_W * OUT_H)
    start = (plane // OUT_D * PITCH_D + plane % OUT_D * 3) * PITCH_H + row // OUT_W % OUT_H * 3
    start = start * PITCH_W + row % OUT_W * 3
    depth = tl.arange(0, BLOCK_K)
    lanes = tl.arange(0, ROWS_W * 2)
    run: tl.constexpr = 3 * PADDED
    steps: tl.constexpr = run // BLOCK_K
    x_ptrs = x_ptr + start.to(tl.int64)[:, None] * PADDED + depth[None, :]
    w_ptrs = w_ptr + lanes[:, None] * (36 * run) + depth[None, :]
    second = size.to(tl.int64) * PADDED
    top = tl.full([BLOCK_M, ROWS_W * 2], float("-inf"), tl.float32)
    for turn in range(108):
        place, phase_d, phase_h = turn // 4, turn // 2 % 2, turn % 2
        base = ((place // 9 * PITCH_H + place // 3 % 3) * PITCH_W + place % 3) * PADDED
        y = tl.zeros([BLOCK_M, ROWS_W * 2], tl.float32)
        for step in range((3 - phase_d) * (3 - phase_h) * steps):
            tap = step // steps
            d = tl.where(phase_h == 0, tap // 3, tap // 2)
            h = tap - d * (3 - phase_h) + phase_h
            d += phase_d
            inner = step % steps * BLOCK_K
            x_shift = base + (d * PITCH_H + h) * (PITCH_W * PADDED) + inner
            w_shift = (turn % 4 * 9 + d * 3 + h) * run + inner
            x_high = tl.load(x_ptrs + x_shift)
            x_low = tl.load(x_ptrs + second + x_shift)
            w_high = tl.load(w_ptrs + w_shift)
            w_low = tl.load(w_ptrs + ROWS_W * 2 * 36 * run + w_shift)
            y = tl.dot(x_low, tl.trans(w_high), y)
            y = tl.dot(x_high, tl.trans(w_low), y)
            y = tl.dot(x_high, tl.trans(w_high), y)
        top = tl.maximum(top, y, propagate_nan=tl.PropagateNan.ALL)
    scale = scale_bits(tl.load(x_top_ptr + plane // OUT_D))
    top *= ((254 - scale) << 23).to(tl.float32, bitcast=True)[:, None]
    top *= ((254 - scale_bits(tl.load(w_top_ptr))) << 23).to(tl.float32, bitcast=True)
    top += tl.load(bias_ptr + lanes // 2, mask=lanes // 2 < OUTPUTS, other=0.0)[None, :]
    first, second = tl.split(tl.reshape(top, [BLOCK_M, ROWS_W, 2]))
    both = tl.maximum(first, second, propagate_nan=tl.PropagateNan.ALL)
    both = tl.where((tl.arange(0, ROWS_W) < OUTPUTS)[None, :], both, 0.0)
    tl.store(out_ptr + cell, tl.sum(both, axis=1), mask=cell < cells)


def tops(x: torch.Tensor, samples: int) -> torch.Tensor:
    """The largest magnitude of every sample, as bits."""
    top = torch.zeros(samples, device=x.device, dtype=torch.int32)
    size = x.numel() // samples
    top_kernel[(samples, triton.cdiv(size, 8192))](x, top, SIZE=size, BLOCK=8192, num_warps=8)
    return top


class ModelNew(nn.Module):
    """Transposed convolution, two max poolings, sum over channels."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.max_pool1 = nn.MaxPool3d(kernel_size=2)
        self.max_pool2 = nn.MaxPool3d(kernel_size=3)
        if (kernel_size, stride, padding) != (5, 2, 2):
            raise ValueError("this kernel is written for a kernel of five, stride 2 and padding 2")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, weight = x.contiguous(), self.conv_transpose.weight.contiguous()
        batch, channels, *sizes = x.shape
        outputs = weight.shape[1]
        out = [(n - 1) // 3 for n in sizes]
        pitch = [n + 1 for n in sizes]
        padded = triton.cdiv(channels, TILE["BLOCK_K"]) * TILE["BLOCK_K"]
        rows = max(triton.next_power_of_2(outputs), 16)
        cells = batch * out[0] * out[1] * out[2]
        valid = batch * pitch[0] * pitch[1] * pitch[2]
        size = triton.cdiv(valid, 16) * 16
        if size >= 2**31:
            raise ValueError("this kernel is written for fewer than 2^31 positions")
        packed = torch.empty((2, size, padded), device=x.device, dtype=torch.float16)
        matrix = torch.empty((2, rows * 2, 108 * padded), device=x.device, dtype=torch.float16)
        x_top, w_top = tops(x, batch), tops(weight, 1)
        y = torch.empty((batch, 1, *out), device=x.device, dtype=x.dtype)
        pack_input_kernel[(triton.cdiv(size, 64),)](
            x,
            x_top,
            packed,
            valid,
            size,
            CHANNELS=channels,
            PADDED=padded,
            DEPTH=sizes[0],
            HEIGHT=sizes[1],
            WIDTH=sizes[2],
            FRONT_D=1,
            FRONT_H=1,
            FRONT_W=1,
            BLOCK_C=triton.next_power_of_2(padded),
            BLOCK_P=64,
            num_warps=4,
        )
        pack_weight_kernel[(rows * 2, triton.cdiv(108 * padded, 1024))](
            weight,
            w_top,
            matrix,
            OUTPUTS=outputs,
            CHANNELS=channels,
            PADDED=padded,
            BLOCK=1024,
            num_warps=4,
        )
        pool_kernel[(triton.cdiv(cells, TILE["BLOCK_M"]),)](
            packed,
            matrix,
            x_top,
            w_top,
            self.conv_transpose.bias,
            y,
            size,
            cells,
            PADDED=padded,
            OUTPUTS=outputs,
            ROWS_W=rows,
            OUT_D=out[0],
            OUT_H=out[1],
            OUT_W=out[2],
            PITCH_D=pitch[0],
            PITCH_H=pitch[1],
            PITCH_W=pitch[2],
            BLOCK_M=TILE["BLOCK_M"],
            BLOCK_K=TILE["BLOCK_K"],
            num_warps=TILE["num_warps"],
            num_stages=TILE["num_stages"],
        )
        return y
