"""3-D convolution as one matrix product on the tensor cores.

A first pass puts the channels last, padded to four, so that all loads of a tap are aligned. A step of the product
takes several taps, wherever they lie.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_M": 256, "BLOCK_K": 16, "num_warps": 4, "num_stages": 3}


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
    OUTPUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    TAPS: tl.constexpr,
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A row for each output channel, zeros behind its last tap."""
    output = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    tap, channel = k // PADDED, k % PADDED
    mask = (tap < TAPS) & (channel < CHANNELS) & (output < OUTPUTS)
    w = tl.load(w_ptr + (output * CHANNELS + channel) * TAPS + tap, mask=mask, other=0.0)
    tl.store(out_ptr + output * LENGTH + k, w, mask=k < LENGTH)


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
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
    y = tl.zeros([BLOCK_M, LANES], tl.float32)
    for step in range(STEPS):
        tap = tl.minimum(step * (BLOCK_K // PADDED) + depth // PADDED, TAPS - 1)
        shift = (
            tap // (KERNEL_H * KERNEL_W) * PITCH_H + tap // KERNEL_W % KERNEL_H
        ) * PITCH_W + tap % KERNEL_W
        shift = tl.max_contiguous(tl.multiple_of(shift * PADDED + depth % PADDED, PADDED), PADDED)
        x = tl.load(x_ptrs + shift[None, :])
        y = tl.dot(x, tl.trans(tl.load(w_ptrs + step * BLOCK_K)), y)
    y = tl.trans(y)
    volume: tl.constexpr = OUT_D * OUT_H * OUT_W
    sample = position // volume
    target = sample.to(tl.int64) * (OUTPUTS * volume) + position % volume
    offsets = lanes[:, None].to(tl.int64) * volume + target[None, :]
    tl.store(y_ptr + offsets, y, mask=(lanes < OUTPUTS)[:, None] & (position < total)[None, :])


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
    packed = torch.empty((size, padded), device=x.device, dtype=x.dtype)
    matrix = torch.empty((lanes, steps * block_k), device=x.device, dtype=x.dtype)
    y = torch.empty((batch, outputs, *out), device=x.device, dtype=x.dtype)
    pack_input_kernel[(triton.cdiv(size, 512),)](
        x,
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
        y,
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
        return convolve(x, self.conv3d.weight)
