"""Convolution, bias, scale, sigmoid, group normalisation, without storing the convolution: with so few input channels
it takes less time to make it twice, as an implicit product on the tensor cores , once for
the moments and once for the result.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 128, "STEPS": 4, "BLOCK_K": 16, "PIXELS_FIRST": False, "num_warps": 4}


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
            acc = tl.dot(tl.trans(x), tl.trans(w), acc)
        else:
            acc = tl.dot(w, x, acc)
    if PIXELS_FIRST:
        acc = tl.trans(acc)
    return acc + tl.load(bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def moments_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    extra_ptr,
    factor_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PIXELS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
):
    """Mean and sum of squared deviations of a part of an image, by channel; steps joined by Chan's formula."""
    WIDTH: tl.constexpr = W - KW + 1
    S: tl.constexpr = (H - KH + 1) * WIDTH
    parts = tl.cdiv(S, PIXELS * STEPS)
    image = (tl.program_id(0) // parts).to(tl.int64)
    o = tl.arange(0, BLOCK_O)
    extra = tl.load(extra_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
    factor = tl.load(factor_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
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
            PIXELS_FIRST,
        )
        x = sigmoid((x + extra) * factor)
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
        total += count * tl.load(mean_ptr + at, mask=there, other=0.0).to(tl.float32)
    center = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    total = tl.zeros([BLOCK, MEMBERS], tl.float32)
    for start in range(0, parts, BLOCK):
        there = (start + b < parts) & inside[None, :]
        count = tl.minimum(S - (start + b) * PART, PART)
        at = (image * parts + start + b) * C + c[None, :]
        apart = tl.load(mean_ptr + at, mask=there, other=0.0).to(tl.float32) - center
        m2 = tl.load(m2_ptr + at, mask=there, other=0.0).to(tl.float32) + count * apart * apart
        total += tl.where(there, m2, 0.0)
    variance = tl.sum(tl.sum(total, axis=1), axis=0) / (members * S)
    scale = tl.load(weight_ptr + c, mask=inside).to(tl.float32) / tl.sqrt(variance + eps)
    shift = tl.load(bias_ptr + c, mask=inside).to(tl.float32) - center * scale
    tl.store(scale_ptr + image * C + c, scale, mask=inside)
    tl.store(shift_ptr + image * C + c, shift, mask=inside)


@triton.jit
def apply_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    extra_ptr,
    factor_ptr,
    scale_ptr,
    shift_ptr,
    y_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
):
    """The result."""
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
    )
    extra = tl.load(extra_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)
    factor = tl.load(factor_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + image * OUT + o, mask=o < OUT, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + image * OUT + o, mask=o < OUT, other=0.0).to(tl.float32)
    x = sigmoid((x + extra) * factor) * scale + shift
    tl.store(y_ptr + image * (OUT * S) + o * S + s[None, :], x, mask=(o < OUT) & (s < S)[None, :])


class ModelNew(nn.Module):
    """Convolution, bias, scale, sigmoid, group norm."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        num_groups: int,
        bias_shape: tuple[int, ...],
        scale_shape: tuple[int, ...],
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale = nn.Parameter(torch.randn(scale_shape))
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, norm, tile = self.conv, self.group_norm, dict(TILE)
        (kh, kw), outputs = conv.kernel_size, conv.out_channels
        batch, channels, h, w = x.shape
        height, width = h - kh + 1, w - kw + 1
        steps, pixels = tile.pop("STEPS"), tile["PIXELS"]
        parts = triton.cdiv(height * width, pixels * steps)
        x, weight = x.contiguous(), conv.weight.contiguous()
        shape = {"IN": channels, "OUT": outputs, "H": h, "W": w, "KH": kh, "KW": kw}
        shape |= {"BLOCK_O": max(16, triton.next_power_of_2(outputs))}
        moments = torch.empty((2, batch * parts, outputs), device=x.device, dtype=torch.float32)
        moments_kernel[(batch * parts,)](
            x, weight, conv.bias, self.bias, self.scale, *moments, STEPS=steps, **shape, **tile
        )
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
        y = torch.empty((batch, outputs, height, width), device=x.device, dtype=x.dtype)
        apply_kernel[(batch * triton.cdiv(height * width, pixels),)](
            x, weight, conv.bias, self.bias, self.scale, scale, shift, y, **shape, **tile
        )
        return y
