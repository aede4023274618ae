"""Convolution, hard swish, group normalisation, mean of each plane, without a written convolution.

The mean of a normalised plane needs but the mean of each channel and the variance of each group. One kernel
convolves, as a product that is split in three, as exact as fp32, and keeps sums and sums of squares about the mean of
its first block; a small kernel joins the parts of a sample by Chan's formula and normalises the planes' means.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PRECISION": "bf16x3", "BLOCK": 64, "POSITIONS": 2048, "num_warps": 4, "num_stages": 1}


@triton.jit
def rounded(x, PRECISION: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits, where it multiplies such."""
    if PRECISION == "tf32":
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def convolve(
    x_ptr,
    weight_ptr,
    places,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """[position, output] of an image, without the bias; places are where the windows begin."""
    taps: tl.constexpr = IN * KERNEL * KERNEL * KERNEL
    o = tl.arange(0, OUTPUTS)
    y = tl.zeros([places.shape[0], OUTPUTS], tl.float32)
    for start in tl.static_range(0, taps, 32):
        k = start + tl.arange(0, 32)
        mask = (k < taps)[:, None] & (o < OUT)[None, :]
        w = tl.load(weight_ptr + o[None, :] * taps + k[:, None], mask=mask, other=0.0)
        k = tl.minimum(k, taps - 1)
        offsets = k // (KERNEL * KERNEL * KERNEL) * DEPTH + k // (KERNEL * KERNEL) % KERNEL
        offsets = (offsets * HEIGHT + k // KERNEL % KERNEL) * WIDTH + k % KERNEL
        x = tl.load(x_ptr + (offsets[:, None] + places[None, :]))
        x = tl.trans(rounded(x, PRECISION))
        y = tl.dot(x, rounded(w, PRECISION), y, input_precision=PRECISION)
    return y


@triton.jit
def hard_swish(x):
    gate = x + 3.0
    gate = tl.where(gate < 0.0, 0.0, gate)
    return x * tl.where(gate > 6.0, 6.0, gate) * (1.0 / 6.0)


@triton.jit
def moments_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    PRECISION: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Mean and squared deviations of the channels at POSITIONS of an image, about the mean of the first block."""
    height: tl.constexpr = HEIGHT - KERNEL + 1
    width: tl.constexpr = WIDTH - KERNEL + 1
    n: tl.constexpr = (DEPTH - KERNEL + 1) * height * width
    parts: tl.constexpr = (n + POSITIONS - 1) // POSITIONS
    x_ptr += (tl.program_id(0) // parts).to(tl.int64) * (IN * DEPTH * HEIGHT * WIDTH)
    first = tl.program_id(0) % parts * POSITIONS
    last = min(first + POSITIONS, n)
    o = tl.arange(0, OUTPUTS)
    bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0)
    shift = tl.zeros([OUTPUTS], tl.float32)
    sums = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    squares = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    for start in range(first, last, BLOCK):
        position = start + tl.arange(0, BLOCK)
        at = tl.minimum(position, n - 1)
        places = (at // (height * width) * HEIGHT + at // width % height) * WIDTH + at % width
        y = convolve(x_ptr, weight_ptr, places, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH, KERNEL, PRECISION)
        y = hard_swish(y + bias[None, :])
        there = (position < last)[:, None]
        if start == first:
            shift = tl.sum(tl.where(there, y, 0.0), axis=0) / min(BLOCK, last - first)
        y = tl.where(there, y - shift[None, :], 0.0)
        sums += y
        squares += y * y
    off = tl.sum(sums, axis=0) / (last - first)
    slots = tl.program_id(0) * OUTPUTS + o
    tl.store(mean_ptr + slots, shift + off)
    tl.store(m2_ptr + slots, tl.sum(squares, axis=0) - off * off * (last - first))


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    channels,
    group_channels,
    parts,
    n,
    eps,
    POSITIONS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUPS: tl.constexpr,
    PARTS: tl.constexpr,
):
    """The means of a sample's normalised channels."""
    o = tl.arange(0, OUTPUTS)
    part = tl.arange(0, PARTS)[:, None]
    counts = tl.minimum(POSITIONS, tl.maximum(n - part * POSITIONS, 0)).to(tl.float32)
    slots = (tl.program_id(0) * parts + part) * OUTPUTS + o[None, :]
    there = (part < parts) & (o < channels)[None, :]
    means = tl.load(mean_ptr + slots, mask=there, other=0.0)
    m2 = tl.load(m2_ptr + slots, mask=there, other=0.0)
    mean = tl.sum(means * (counts / n), axis=0)
    m2 = tl.sum(m2 + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    member = (o // group_channels)[:, None] == tl.arange(0, GROUPS)[None, :]
    member &= (o < channels)[:, None]
    center = tl.sum(tl.where(member, mean[:, None], 0.0), axis=0) / group_channels
    delta = tl.where(member, mean[:, None] - center[None, :], 0.0)
    total = tl.sum(tl.where(member, m2[:, None], 0.0) + delta * delta * n, axis=0)
    scale = 1.0 / tl.sqrt(total / (n * group_channels) + eps)
    y = tl.sum(delta * scale[None, :], axis=1) * tl.load(weight_ptr + o, mask=o < channels, other=0.0)
    y += tl.load(bias_ptr + o, mask=o < channels, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * channels + o, y, mask=o < channels)


class ModelNew(nn.Module):
    """Convolution, hard swish, group norm, spatial mean."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int = 4, bias: bool = True
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, bias=bias)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv, dict(TILE)
        batch, inputs, depth, height, width = x.shape
        outputs, kernel = conv.out_channels, conv.kernel_size[0]
        shape = {
            "IN": inputs,
            "OUT": outputs,
            "OUTPUTS": max(16, triton.next_power_of_2(outputs)),
            "DEPTH": depth,
            "HEIGHT": height,
            "WIDTH": width,
            "KERNEL": kernel,
            "PRECISION": tile.pop("PRECISION"),
        }
        norm = self.group_norm
        n = (depth - kernel + 1) * (height - kernel + 1) * (width - kernel + 1)
        parts = triton.cdiv(n, tile["POSITIONS"])
        moments = torch.empty((2, batch * parts * shape["OUTPUTS"]), device=x.device, dtype=torch.float32)
        bias = conv.bias if conv.bias is not None else torch.zeros(outputs, device=x.device)
        moments_kernel[(batch * parts,)](x, conv.weight.contiguous(), bias, *moments, **shape, **tile)
        out = torch.empty((batch, outputs), device=x.device, dtype=x.dtype)
        join_kernel[(batch,)](
            *moments,
            norm.weight,
            norm.bias,
            out,
            outputs,
            outputs // norm.num_groups,
            parts,
            n,
            norm.eps,
            POSITIONS=tile["POSITIONS"],
            OUTPUTS=shape["OUTPUTS"],
            GROUPS=triton.next_power_of_2(norm.num_groups),
            PARTS=triton.next_power_of_2(parts),
            num_warps=4,
        )
        return out
