"""2-D convolution as one matrix product on the tensor cores.

A first pass puts the channels last, padded to four. Then a row of taps is one run of memory and all loads are
aligned. A row of the product is several neighbouring positions, which share loads.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"TOGETHER": 1, "CACHED": False, "BLOCK_M": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}


@triton.jit
def pack_input_kernel(
    x_ptr,
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
    """Put the channels last, with zeros in front of each axis."""
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
    offsets = position.to(tl.int64)[:, None] * PADDED + channel[None, :]
    tl.store(out_ptr + offsets, tl.trans(x), mask=(position < size)[:, None] & (channel < PADDED)[None, :])


@triton.jit
def pack_weight_kernel(
    w_ptr,
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
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row for each output channel and each of the positions computed together."""
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
    tl.store(out_ptr + tl.program_id(0) * LENGTH + k, w, mask=k < LENGTH)


@triton.jit(do_not_specialize=["nothing"])
def conv_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    nothing,
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
    LENGTH: tl.constexpr,
    CACHED: tl.constexpr,
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
    if CACHED:
        x_ptr += 4 * nothing  # else the copies are of 16 bytes, which pass by the L1 cache
    x_ptrs = x_ptr + start.to(tl.int64)[:, None] * PADDED
    w_ptrs = w_ptr + lanes[:, None] * LENGTH + depth[None, :]
    y = tl.zeros([BLOCK_M, ROWS_W * TOGETHER], tl.float32)
    for step in range(LENGTH // BLOCK_K):
        if RUN % BLOCK_K == 0:
            tap = step // (RUN // BLOCK_K)
            within = step % (RUN // BLOCK_K) * BLOCK_K + depth
        else:
            # What comes after the last tap has weights of zero.
            tap = tl.minimum((step * BLOCK_K + depth) // RUN, KERNEL_D * KERNEL_H - 1)
            within = (step * BLOCK_K + depth) % RUN
        shift = (tap // KERNEL_H * PITCH_H + tap % KERNEL_H) * (PITCH_W * PADDED) + within
        x = tl.load(x_ptrs + shift[None, :])
        w = tl.load(w_ptrs + step * BLOCK_K)
        y = tl.dot(x, tl.trans(w), y)
    y = tl.trans(y)
    if TOGETHER > 1:
        y = tl.permute(tl.reshape(y, [ROWS_W, TOGETHER, BLOCK_M]), (0, 2, 1))
        y = tl.reshape(y, [ROWS_W, BLOCK_M * TOGETHER])
    position = first * TOGETHER + tl.arange(0, BLOCK_M * TOGETHER)
    output = tl.arange(0, ROWS_W)
    volume: tl.constexpr = OUT_D * OUT_H * OUT_W
    target = (position // volume).to(tl.int64) * (OUTPUTS * volume) + position % volume
    offsets = output[:, None].to(tl.int64) * volume + target[None, :]
    tl.store(y_ptr + offsets, y, mask=(output < OUTPUTS)[:, None] & (position < total)[None, :])


def convolve(
    x: torch.Tensor, weight: torch.Tensor, *, transposed: bool, padding: tuple[int, ...] = (0, 0, 0)
) -> torch.Tensor:
    """A convolution, transposed or not, of stride 1; the padding of a transposed one."""
    x, weight = x.contiguous(), weight.contiguous()
    batch, channels, *sizes = x.shape
    kernel = weight.shape[2:]
    taps = kernel.numel()
    outputs = weight.shape[1] if transposed else weight.shape[0]
    front = [k - 1 - p if transposed else 0 for k, p in zip(kernel, padding, strict=True)]
    pitch = [n + f for n, f in zip(sizes, front, strict=True)]
    out = [n + 2 * f - k + 1 for n, f, k in zip(sizes, front, kernel, strict=True)]
    together, block_m, block_k = TILE["TOGETHER"], TILE["BLOCK_M"], TILE["BLOCK_K"]
    if out != pitch and out[2] % together:
        together = 1
    padded = triton.cdiv(channels, 4) * 4
    run = triton.cdiv((together + kernel[2] - 1) * padded, 32) * 32
    rows = max(triton.next_power_of_2(outputs), 16)
    total = batch * out[0] * out[1] * out[2]
    groups = triton.cdiv(total, together)
    valid = batch * pitch[0] * pitch[1] * pitch[2]
    size = (
        valid + ((kernel[0] - 1) * pitch[1] + kernel[1] - 1) * pitch[2] + triton.cdiv(run, padded) + together
    )
    if size * together >= 2**31:
        raise ValueError("this kernel is written for fewer than 2^31 positions")
    packed = torch.empty((size, padded), device=x.device, dtype=x.dtype)
    length = triton.cdiv(kernel[0] * kernel[1] * run, block_k) * block_k
    matrix = torch.empty((rows * together, length), device=x.device, dtype=x.dtype)
    y = torch.empty((batch, outputs, *out), device=x.device, dtype=x.dtype)
    pack_input_kernel[(triton.cdiv(size, 512 if padded < 16 else 128),)](
        x,
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
        BLOCK_P=512 if padded < 16 else 128,
        num_warps=4,
    )
    pack_weight_kernel[(rows * together, triton.cdiv(length, 1024))](
        weight,
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
        LENGTH=length,
        BLOCK=1024,
        num_warps=4,
    )
    conv_kernel[(triton.cdiv(groups, block_m),)](
        packed,
        matrix,
        y,
        0,
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
        LENGTH=length,
        CACHED=TILE["CACHED"],
        BLOCK_M=block_m,
        BLOCK_K=block_k,
        num_warps=TILE["num_warps"],
        num_stages=TILE["num_stages"],
    )
    return y


class ModelNew(nn.Module):
    """2-D convolution."""

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
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )
        conv = self.conv2d
        if conv.stride != (1, 1) or conv.dilation != (1, 1) or conv.groups != 1 or conv.bias is not None:
            raise ValueError("this kernel is written for stride 1, no dilation, one group and no bias")
        if any(conv.padding):
            raise ValueError("this kernel is written for no padding")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv2d
        weight = conv.weight.unsqueeze(2)
        return convolve(x.unsqueeze(2), weight, transposed=False).squeeze(2)
