"""3-D convolution as one matrix product on the tensor cores, in three fp16 products with the accuracy of fp32.

A first pass brings every sample and the weights to a fixed range by a power of two, splits each value into the sum of
two fp16 numbers (22 bits), and puts the channels last, padded to four. Then a row of taps is one run of memory and all
loads are aligned. A row of the product is several neighbouring positions, which share loads.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"TOGETHER": 2, "BLOCK_M": 256, "BLOCK_K": 16, "num_warps": 8, "num_stages": 4}


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
    STRIDE_O: tl.constexpr,
    STRIDE_C: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    KERNEL_D: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    FLIP: tl.constexpr,
    TOGETHER: tl.constexpr,
    RUN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row for each output channel and each of the positions computed together; high parts, then low parts."""
    output, place = tl.program_id(0) // TOGETHER, tl.program_id(0) % TOGETHER
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tap, within = k // RUN, k % RUN
    channel = within % PADDED
    tap_w = within // PADDED - place
    mask = (tap < KERNEL_D * KERNEL_H) & (tap_w >= 0) & (tap_w < KERNEL_W)
    mask = mask & (channel < CHANNELS) & (output < OUTPUTS)
    index = tap * KERNEL_W + tap_w
    if FLIP:
        index = KERNEL_D * KERNEL_H * KERNEL_W - 1 - index
    w = tl.load(w_ptr + output * STRIDE_O + channel * STRIDE_C + index, mask=mask, other=0.0)
    w *= (scale_bits(tl.load(top_ptr)) << 23).to(tl.float32, bitcast=True)
    high = w.to(tl.float16)
    low = (w - high.to(tl.float32)).to(tl.float16)
    length: tl.constexpr = KERNEL_D * KERNEL_H * RUN
    offsets = tl.program_id(0) * length + k
    tl.store(out_ptr + offsets, high, mask=k < length)
    tl.store(out_ptr + tl.num_programs(0) * length + offsets, low, mask=k < length)


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    x_top_ptr,
    w_top_ptr,
    y_ptr,
    size,
    groups,
    total,
    PADDED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS_W: tl.constexpr,
    OUT_D: tl.constexpr,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    PITCH_D: tl.constexpr,
    PITCH_H: tl.constexpr,
    PITCH_W: tl.constexpr,
    KERNEL_D: tl.constexpr,
    KERNEL_H: tl.constexpr,
    TOGETHER: tl.constexpr,
    RUN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A row is TOGETHER neighbouring output positions; its input lies in one run for each tap in depth and height."""
    first = tl.program_id(0) * BLOCK_M
    start = tl.minimum(first + tl.arange(0, BLOCK_M), groups - 1) * TOGETHER
    if (OUT_D != PITCH_D) or (OUT_H != PITCH_H) or (OUT_W != PITCH_W):
        row = start // OUT_W
        plane = row // OUT_H
        plane = plane // OUT_D * PITCH_D + plane % OUT_D
        start = (plane * PITCH_H + row % OUT_H) * PITCH_W + start % OUT_W
    depth = tl.arange(0, BLOCK_K)
    lanes = tl.arange(0, ROWS_W * TOGETHER)
    steps: tl.constexpr = RUN // BLOCK_K
    length: tl.constexpr = KERNEL_D * KERNEL_H * RUN
    x_ptrs = x_ptr + start.to(tl.int64)[:, None] * PADDED + depth[None, :]
    w_ptrs = w_ptr + lanes[:, None] * length + depth[None, :]
    second = size.to(tl.int64) * PADDED
    y = tl.zeros([BLOCK_M, ROWS_W * TOGETHER], tl.float32)
    for step in range(KERNEL_D * KERNEL_H * steps):
        tap = step // steps
        shift = (tap // KERNEL_H * PITCH_H + tap % KERNEL_H) * (PITCH_W * PADDED) + step % steps * BLOCK_K
        x_high = tl.load(x_ptrs + shift)
        x_low = tl.load(x_ptrs + second + shift)
        w_high = tl.load(w_ptrs + step * BLOCK_K)
        w_low = tl.load(w_ptrs + ROWS_W * TOGETHER * length + step * BLOCK_K)
        y = tl.dot(x_low, tl.trans(w_high), y)
        y = tl.dot(x_high, tl.trans(w_low), y)
        y = tl.dot(x_high, tl.trans(w_high), y)
    y = tl.trans(y)
    if TOGETHER > 1:
        y = tl.permute(tl.reshape(y, [ROWS_W, TOGETHER, BLOCK_M]), (0, 2, 1))
        y = tl.reshape(y, [ROWS_W, BLOCK_M * TOGETHER])
    position = first * TOGETHER + tl.arange(0, BLOCK_M * TOGETHER)
    output = tl.arange(0, ROWS_W)
    volume: tl.constexpr = OUT_D * OUT_H * OUT_W
    sample = position // volume
    scale = scale_bits(tl.load(x_top_ptr + sample, mask=position < total, other=0))
    y *= ((254 - scale) << 23).to(tl.float32, bitcast=True)[None, :]
    y *= ((254 - scale_bits(tl.load(w_top_ptr))) << 23).to(tl.float32, bitcast=True)
    target = sample.to(tl.int64) * (OUTPUTS * volume) + position % volume
    offsets = output[:, None].to(tl.int64) * volume + target[None, :]
    tl.store(y_ptr + offsets, y, mask=(output < OUTPUTS)[:, None] & (position < total)[None, :])


def tops(x: torch.Tensor, samples: int) -> torch.Tensor:
    """The largest magnitude of every sample, as bits."""
    top = torch.zeros(samples, device=x.device, dtype=torch.int32)
    size = x.numel() // samples
    top_kernel[(samples, triton.cdiv(size, 8192))](x, top, SIZE=size, BLOCK=8192, num_warps=8)
    return top


def convolve(x: torch.Tensor, weight: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """A convolution, transposed or not, of stride 1 without padding."""
    x, weight = x.contiguous(), weight.contiguous()
    batch, channels, *sizes = x.shape
    kernel = weight.shape[2:]
    taps = kernel.numel()
    outputs = weight.shape[1] if transposed else weight.shape[0]
    front = [k - 1 if transposed else 0 for k in kernel]
    pitch = [n + f for n, f in zip(sizes, front, strict=True)]
    out = pitch if transposed else [n - k + 1 for n, k in zip(sizes, kernel, strict=True)]
    together, block_m, block_k = TILE["TOGETHER"], TILE["BLOCK_M"], TILE["BLOCK_K"]
    if not transposed and out[2] % together:
        together = 1
    padded = triton.cdiv(channels, 4) * 4
    run = triton.cdiv((together + kernel[2] - 1) * padded, block_k) * block_k
    rows = max(triton.next_power_of_2(outputs), 16)
    total = batch * out[0] * out[1] * out[2]
    groups = triton.cdiv(total, together)
    valid = batch * pitch[0] * pitch[1] * pitch[2]
    size = (
        valid + ((kernel[0] - 1) * pitch[1] + kernel[1] - 1) * pitch[2] + triton.cdiv(run, padded) + together
    )
    size = triton.cdiv(size, 16) * 16
    if size * together >= 2**31:
        raise ValueError("this kernel is written for fewer than 2^31 positions")
    packed = torch.empty((2, size, padded), device=x.device, dtype=torch.float16)
    length = kernel[0] * kernel[1] * run
    matrix = torch.empty((2, rows * together, length), device=x.device, dtype=torch.float16)
    x_top, w_top = tops(x, batch), tops(weight, 1)
    y = torch.empty((batch, outputs, *out), device=x.device, dtype=x.dtype)
    pack_input_kernel[(triton.cdiv(size, 512),)](
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
        FRONT_D=front[0],
        FRONT_H=front[1],
        FRONT_W=front[2],
        BLOCK_C=triton.next_power_of_2(padded),
        BLOCK_P=512,
        num_warps=4,
    )
    pack_weight_kernel[(rows * together, triton.cdiv(length, 1024))](
        weight,
        w_top,
        matrix,
        STRIDE_O=taps if transposed else channels * taps,
        STRIDE_C=outputs * taps if transposed else taps,
        OUTPUTS=outputs,
        CHANNELS=channels,
        PADDED=padded,
        KERNEL_D=kernel[0],
        KERNEL_H=kernel[1],
        KERNEL_W=kernel[2],
        FLIP=transposed,
        TOGETHER=together,
        RUN=run,
        BLOCK=1024,
        num_warps=4,
    )
    conv_kernel[(triton.cdiv(groups, block_m),)](
        packed,
        matrix,
        x_top,
        w_top,
        y,
        size,
        groups,
        total,
        PADDED=padded,
        OUTPUTS=outputs,
        ROWS_W=rows,
        OUT_D=out[0],
        OUT_H=out[1],
        OUT_W=out[2],
        PITCH_D=pitch[0],
        PITCH_H=pitch[1],
        PITCH_W=pitch[2],
        KERNEL_D=kernel[0],
        KERNEL_H=kernel[1],
        TOGETHER=together,
        RUN=run,
        BLOCK_M=block_m,
        BLOCK_K=block_k,
        num_warps=TILE["num_warps"],
        num_stages=TILE["num_stages"],
    )
    return y


class ModelNew(nn.Module):
    """3-D convolution with a cubic kernel."""

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
            (kernel_size, kernel_size, kernel_size),
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
        return convolve(x, self.conv3d.weight, transposed=False)
