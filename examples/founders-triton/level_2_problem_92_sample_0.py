"""Convolution, group normalisation, tanh, hard swish, residual sum, logsumexp over the channels, without storing the
convolution: with so few input channels it takes less time to make it twice, as an implicit product on the tensor
cores (split in three, as exact as fp32), once for the moments and once for the rest.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PRECISION": "tf32x3", "PIXELS": 64, "STEPS": 4, "BLOCK_K": 16, "PIXELS_FIRST": True, "num_warps": 4}


@triton.jit
def inputs_of(
    x_ptr,
    pixel,
    START: tl.constexpr,
    IN: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """What BLOCK_K weights of an output are multiplied with, for outputs whose windows begin at these pixels."""
    k = START + tl.arange(0, BLOCK_K)
    offset = k // (KH * KW) * (H * W) + k // KW % KH * W + k % KW
    return tl.load(x_ptr + offset[:, None] + pixel[None, :], mask=(k < IN * KH * KW)[:, None], other=0.0)


@triton.jit
def convolve(
    x_ptr,
    weight_ptr,
    bias_ptr,
    pixel,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """An image's outputs [BLOCK_O, pixels] where windows begin at these pixels; the next inputs are read early."""
    K: tl.constexpr = IN * KH * KW
    o = tl.arange(0, BLOCK_O)
    if PIXELS_FIRST:
        acc = tl.zeros([pixel.shape[0], BLOCK_O], tl.float32)
    else:
        acc = tl.zeros([BLOCK_O, pixel.shape[0]], tl.float32)
    following = inputs_of(x_ptr, pixel, 0, IN, H, W, KH, KW, BLOCK_K)
    for start in tl.static_range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        there = (o < OUT)[:, None] & (k < K)[None, :]
        w = tl.load(weight_ptr + o[:, None] * K + k[None, :], mask=there, other=0.0)
        x = following
        if start + BLOCK_K < K:
            following = inputs_of(x_ptr, pixel, start + BLOCK_K, IN, H, W, KH, KW, BLOCK_K)
        if PIXELS_FIRST:
            acc = tl.dot(tl.trans(x), tl.trans(w), acc, input_precision=PRECISION)
        else:
            acc = tl.dot(w, x, acc, input_precision=PRECISION)
    if PIXELS_FIRST:
        acc = tl.trans(acc)
    return acc + tl.load(bias_ptr + o, mask=o < OUT, other=0.0)[:, None]


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def hard_swish(x):
    return x * clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


@triton.jit
def moments_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
    PIXELS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Mean and sum of squared deviations of a part of an image, by channel; steps joined by Chan's formula."""
    WIDTH: tl.constexpr = W - KW + 1
    S: tl.constexpr = (H - KH + 1) * WIDTH
    parts = tl.cdiv(S, PIXELS * STEPS)
    image = (tl.program_id(0) // parts).to(tl.int64)
    o = tl.arange(0, BLOCK_O)
    count = 0.0
    mean = tl.zeros([BLOCK_O], tl.float32)
    m2 = tl.zeros([BLOCK_O], tl.float32)
    for step in tl.range(STEPS, num_stages=1):
        start = (tl.program_id(0) % parts * STEPS + step) * PIXELS
        s = start + tl.arange(0, PIXELS)
        there = (s < S)[None, :]
        inside = tl.minimum(s, S - 1)
        pixel = inside // WIDTH * W + inside % WIDTH
        x = convolve(
            x_ptr + image * (IN * H * W),
            weight_ptr,
            conv_bias_ptr,
            pixel,
            IN,
            OUT,
            H,
            W,
            KH,
            KW,
            BLOCK_O,
            BLOCK_K,
            False,
            PRECISION,
        )
        number = tl.maximum(tl.minimum(S - start, PIXELS), 0).to(tl.float32)
        center = tl.sum(tl.where(there, x, 0.0), axis=1) / tl.maximum(number, 1.0)
        apart = tl.where(there, x - center[:, None], 0.0)
        center -= mean
        share = number / tl.maximum(count + number, 1.0)
        m2 += tl.sum(apart * apart, axis=1) + center * center * count * share
        mean += center * share
        count += number
    tl.store(mean_ptr + tl.program_id(0) * OUT + o, mean, mask=o < OUT)
    tl.store(m2_ptr + tl.program_id(0) * OUT + o, m2, mask=o < OUT)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    scale_ptr,
    shift_ptr,
    eps,
    parts,
    groups,
    C: tl.constexpr,
    S: tl.constexpr,
    PART: tl.constexpr,
    BLOCK: tl.constexpr,
    MEMBERS: tl.constexpr,
):
    """The parts of a group's channels together: what then becomes of each channel."""
    members = C // groups
    image = tl.program_id(0) // groups
    b = tl.arange(0, BLOCK)[:, None]
    member = tl.arange(0, MEMBERS)
    inside = member < members
    c = (tl.program_id(0) % groups) * members + member
    total = tl.zeros([BLOCK, MEMBERS], tl.float32)
    for start in range(0, parts, BLOCK):
        there = (start + b < parts) & inside[None, :]
        count = tl.minimum(S - (start + b) * PART, PART)
        at = (image * parts + start + b) * C + c[None, :]
        total += count * tl.load(mean_ptr + at, mask=there, other=0.0)
    center = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    total = tl.zeros([BLOCK, MEMBERS], tl.float32)
    for start in range(0, parts, BLOCK):
        there = (start + b < parts) & inside[None, :]
        count = tl.minimum(S - (start + b) * PART, PART)
        at = (image * parts + start + b) * C + c[None, :]
        apart = tl.load(mean_ptr + at, mask=there, other=0.0) - center
        m2 = tl.load(m2_ptr + at, mask=there, other=0.0) + count * apart * apart
        total += tl.where(there, m2, 0.0)
    variance = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    scale = tl.load(weight_ptr + c, mask=inside) / tl.sqrt(variance + eps)
    shift = tl.load(bias_ptr + c, mask=inside) - center * scale
    tl.store(scale_ptr + image * C + c, scale, mask=inside)
    tl.store(shift_ptr + image * C + c, shift, mask=inside)


@triton.jit
def channel_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    scale_ptr,
    shift_ptr,
    out_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
):
    """The rest, to one value a pixel."""
    WIDTH: tl.constexpr = W - KW + 1
    S: tl.constexpr = (H - KH + 1) * WIDTH
    blocks = tl.cdiv(S, PIXELS)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * PIXELS + tl.arange(0, PIXELS)
    o = tl.arange(0, BLOCK_O)[:, None]
    inside = tl.minimum(s, S - 1)
    pixel = inside // WIDTH * W + inside % WIDTH
    x = convolve(
        x_ptr + image * (IN * H * W),
        weight_ptr,
        conv_bias_ptr,
        pixel,
        IN,
        OUT,
        H,
        W,
        KH,
        KW,
        BLOCK_O,
        BLOCK_K,
        PIXELS_FIRST,
        PRECISION,
    )
    scale = tl.load(scale_ptr + image * OUT + o, mask=o < OUT, other=0.0)
    shift = tl.load(shift_ptr + image * OUT + o, mask=o < OUT, other=0.0)
    x += hard_swish(tanh(x * scale + shift))
    x = tl.where(o < OUT, x, float("-inf"))
    peak = tl.max(x, axis=0)
    result = tl.log(tl.sum(tl.exp(x - peak[None, :]), axis=0)) + peak
    tl.store(out_ptr + image * S + s, result, mask=s < S)


class ModelNew(nn.Module):
    """Convolution plus its normalised and activated self, log-sum-exp over channels."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, groups: int, eps: float = 1e-05
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)
        self.tanh = nn.Tanh()
        self.hard_swish = nn.Hardswish()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, norm, tile = self.conv, self.group_norm, dict(TILE)
        (kh, kw), outputs = conv.kernel_size, conv.out_channels
        batch, channels, h, w = x.shape
        height, width = h - kh + 1, w - kw + 1
        steps, pixels = tile.pop("STEPS"), tile["PIXELS"]
        parts = triton.cdiv(height * width, pixels * steps)
        x, weight = x.contiguous(), conv.weight.contiguous()
        shape = {"IN": channels, "OUT": outputs, "H": h, "W": w, "KH": kh, "KW": kw}
        shape |= {"BLOCK_O": max(16, triton.next_power_of_2(outputs)), "PRECISION": tile.pop("PRECISION")}
        moments = torch.empty((2, batch * parts, outputs), device=x.device, dtype=torch.float32)
        first = tile.pop("PIXELS_FIRST")
        moments_kernel[(batch * parts,)](x, weight, conv.bias, *moments, STEPS=steps, **shape, **tile)
        scale, shift = torch.empty((2, batch, outputs), device=x.device, dtype=torch.float32)
        join_kernel[(batch * norm.num_groups,)](
            *moments,
            norm.weight,
            norm.bias,
            scale,
            shift,
            norm.eps,
            parts,
            norm.num_groups,
            C=outputs,
            S=height * width,
            PART=pixels * steps,
            BLOCK=64,
            MEMBERS=triton.next_power_of_2(outputs // norm.num_groups),
            num_warps=2,
        )
        out = torch.empty((batch, 1, height, width), device=x.device, dtype=x.dtype)
        channel_kernel[(batch * triton.cdiv(height * width, pixels),)](
            x, weight, conv.bias, scale, shift, out, PIXELS_FIRST=first, **shape, **tile
        )
        return out
