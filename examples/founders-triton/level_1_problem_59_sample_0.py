"""3-D convolution as one matrix product on the tensor cores, in three fp16 products with the accuracy of fp32.

A first pass brings every sample and the weights to a fixed range by a power of two, splits each value into the sum of
two fp16 numbers (22 bits), and puts the channels last, padded to four, so that all loads of a tap are aligned. A step of
the product takes several taps, wherever they lie.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_M": 128, "BLOCK_K": 16, "num_warps": 4, "num_stages": 3}


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
    TAPS: tl.constexpr,
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A row for each output channel, zeros behind its last tap; high parts, then low parts."""
    output = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    tap, channel = k // PADDED, k % PADDED
    mask = (tap < TAPS) & (channel < CHANNELS) & (output < OUTPUTS)
    w = tl.load(w_ptr + (output * CHANNELS + channel) * TAPS + tap, mask=mask, other=0.0)
    w *= (scale_bits(tl.load(top_ptr)) << 23).to(tl.float32, bitcast=True)
    high = w.to(tl.float16)
    low = (w - high.to(tl.float32)).to(tl.float16)
    tl.store(out_ptr + output * LENGTH + k, high, mask=k < LENGTH)
    tl.store(out_ptr + (tl.num_programs(0) + output) * LENGTH + k, low, mask=k < LENGTH)


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    x_top_ptr,
    w_top_ptr,
    y_ptr,
    size,
    total,
    PADDED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    LANES: tl.constexpr,
    OUT_D: tl.constexpr,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    PITCH_D: tl.constexpr,
    PITCH_H: tl.constexpr,
    PITCH_W: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    TAPS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """BLOCK_M neighbouring positions of all output channels."""
    position = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    start = tl.minimum(position, total - 1)
    row = start // OUT_W
    plane = row // OUT_H
    plane = plane // OUT_D * PITCH_D + plane % OUT_D
    start = (plane * PITCH_H + row % OUT_H) * PITCH_W + start % OUT_W
    depth = tl.arange(0, BLOCK_K)
    lanes = tl.arange(0, LANES)
    x_ptrs = x_ptr + start.to(tl.int64)[:, None] * PADDED
    w_ptrs = w_ptr + lanes[:, None] * (STEPS * BLOCK_K) + depth[None, :]
    second = size.to(tl.int64) * PADDED
    y = tl.zeros([BLOCK_M, LANES], tl.float32)
    for step in range(STEPS):
        tap = tl.minimum(step * (BLOCK_K // PADDED) + depth // PADDED, TAPS - 1)
        shift = (
            tap // (KERNEL_H * KERNEL_W) * PITCH_H + tap // KERNEL_W % KERNEL_H
        ) * PITCH_W + tap % KERNEL_W
        shift = tl.max_contiguous(tl.multiple_of(shift * PADDED + depth % PADDED, PADDED), PADDED)
        x_high = tl.load(x_ptrs + shift[None, :])
        x_low = tl.load(x_ptrs + (second + shift[None, :]))
        w_high = tl.load(w_ptrs + step * BLOCK_K)
        w_low = tl.load(w_ptrs + LANES * (STEPS * BLOCK_K) + step * BLOCK_K)
        y = tl.dot(x_low, tl.trans(w_high), y)
        y = tl.dot(x_high, tl.trans(w_low), y)
        y = tl.dot(x_high, tl.trans(w_high), y)
    y = tl.trans(y)
    volume: tl.constexpr = OUT_D * OUT_H * OUT_W
    sample = position // volume
    scale = scale_bits(tl.load(x_top_ptr + sample, mask=position < total, other=0))
    y *= ((254 - scale) << 23).to(tl.float32, bitcast=True)[None, :]
    y *= ((254 - scale_bits(tl.load(w_top_ptr))) << 23).to(tl.float32, bitcast=True)
    target = sample.to(tl.int64) * (OUTPUTS * volume) + position % volume
    offsets = lanes[:, None].to(tl.int64) * volume + target[None, :]
    tl.store(y_ptr + offsets, y, mask=(lanes < OUTPUTS)[:, None] & (position < total)[None, :])


def tops(x: torch.Tensor, samples: int) -> torch.Tensor:
    """The largest magnitude of every sample, as bits."""
    top = torch.zeros(samples, device=x.device, dtype=torch.int32)
    size = x.numel() // samples
    top_kernel[(samples, triton.cdiv(size, 8192))](x, top, SIZE=size, BLOCK=8192, num_warps=8)
    return top


def convolve(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A convolution of stride 1 without padding."""
    x, weight = x.contiguous(), weight.contiguous()
    batch, channels, *sizes = x.shape
    outputs, kernel = weight.shape[0], weight.shape[2:]
    out = [n - k + 1 for n, k in zip(sizes, kernel, strict=True)]
    block_m, block_k = TILE["BLOCK_M"], TILE["BLOCK_K"]
    padded = triton.next_power_of_2(max(channels, 4))
    steps = triton.cdiv(kernel.numel() * padded, block_k)
    lanes = max(triton.next_power_of_2(outputs), 16)
    total, size = batch * out[0] * out[1] * out[2], batch * sizes[0] * sizes[1] * sizes[2]
    if max(size, total) >= 2**31 or padded > block_k:
        raise ValueError("this kernel is written for fewer than 2^31 positions and few channels")
    packed = torch.empty((2, size, padded), device=x.device, dtype=torch.float16)
    matrix = torch.empty((2, lanes, steps * block_k), device=x.device, dtype=torch.float16)
    x_top, w_top = tops(x, batch), tops(weight, 1)
    y = torch.empty((batch, outputs, *out), device=x.device, dtype=x.dtype)
    pack_input_kernel[(triton.cdiv(size, 512),)](
        x,
        x_top,
        packed,
        size,
        size,
        CHANNELS=channels,
        PADDED=padded,
        DEPTH=sizes[0],
        HEIGHT=sizes[1],
        WIDTH=sizes[2],
        FRONT_D=0,
        FRONT_H=0,
        FRONT_W=0,
        BLOCK_C=padded,
        BLOCK_P=512,
        num_warps=4,
    )
    pack_weight_kernel[(lanes,)](
        weight,
        w_top,
        matrix,
        OUTPUTS=outputs,
        CHANNELS=channels,
        PADDED=padded,
        TAPS=kernel.numel(),
        LENGTH=steps * block_k,
        BLOCK=triton.next_power_of_2(steps * block_k),
        num_warps=1,
    )
    conv_kernel[(triton.cdiv(total, block_m),)](
        packed,
        matrix,
        x_top,
        w_top,
        y,
        size,
        total,
        PADDED=padded,
        OUTPUTS=outputs,
        LANES=lanes,
        OUT_D=out[0],
        OUT_H=out[1],
        OUT_W=out[2],
        PITCH_D=sizes[0],
        PITCH_H=sizes[1],
        PITCH_W=sizes[2],
        KERNEL_H=kernel[1],
        KERNEL_W=kernel[2],
        TAPS=kernel.numel(),
        STEPS=steps,
        BLOCK_M=block_m,
        BLOCK_K=block_k,
        num_warps=TILE["num_warps"],
        num_stages=TILE["num_stages"],
    )
    return y


class ModelNew(nn.Module):
    """3-D convolution with a flat kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv3d = nn.Conv3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, 1),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        conv = self.conv3d
        if conv.stride != (1, 1, 1) or conv.padding != (0, 0, 0) or conv.dilation != (1, 1, 1):
            raise ValueError("this kernel is written for stride 1, dilation 1 and no padding")
        if groups != 1 or conv.bias is not None:
            raise ValueError("this kernel is written for one group and no bias")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return convolve(x, self.conv3d.weight)
