"""Convolution, GELU, global average: an implicit product on the tensor cores and GELU in
one kernel, which stores a sum a channel only, of a part of an image; a second joins the parts.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "PIXELS": 128,
    "STEPS": 8,
    "BLOCK_K": 16,
    "PIXELS_FIRST": False,
    "ERF": False,
    "num_warps": 4,
    "maxnreg": 128,
}


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
def gelu(x, ERF: tl.constexpr):
    """By the library's erf, or by the shorter one of Abramowitz and Stegun (7.1.26), exact to 1.5e-7."""
    if ERF:
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(x))
    tail = 1.061405429 * t - 1.453152027
    tail = (((tail * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    tail *= tl.exp2(x * x * (-0.5 * 1.4426950408889634))
    return tl.where(x < 0.0, 0.0, x) - 0.5 * tl.abs(x) * tail


@triton.jit
def sum_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    part_ptr,
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
    ERF: tl.constexpr,
):
    """Sums of a part of an image's results, one a channel."""
    WIDTH: tl.constexpr = W - KW + 1
    S: tl.constexpr = (H - KH + 1) * WIDTH
    parts = tl.cdiv(S, PIXELS * STEPS)
    image = (tl.program_id(0) // parts).to(tl.int64)
    o = tl.arange(0, BLOCK_O)
    total = tl.zeros([BLOCK_O], tl.float32)
    for step in tl.range(STEPS, num_stages=1):
        s = (tl.program_id(0) % parts * STEPS + step) * PIXELS + tl.arange(0, PIXELS)
        inside = tl.minimum(s, S - 1)
        pixel = inside // WIDTH * W + inside % WIDTH
        x = convolve(
            x_ptr + image * (IN * H * W),
            weight_ptr,
            bias_ptr,
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
        total += tl.sum(tl.where((s < S)[None, :], gelu(x, ERF), 0.0), axis=1)
    tl.store(part_ptr + tl.program_id(0) * OUT + o, total, mask=o < OUT)


@triton.jit
def join_kernel(part_ptr, out_ptr, n, parts, C: tl.constexpr, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr):
    """The parts of an image together."""
    b = tl.arange(0, BLOCK)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros([BLOCK, BLOCK_C], tl.float32)
    for start in range(0, parts, BLOCK):
        there = (start + b < parts) & (c < C)[None, :]
        total += tl.load(
            part_ptr + (tl.program_id(0) * parts + start + b) * C + c[None, :], mask=there, other=0.0
        ).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * C + c, tl.sum(total, axis=0) / n, mask=c < C)


class ModelNew(nn.Module):
    """Convolution, GELU, global average."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv, dict(TILE)
        (kh, kw), outputs = conv.kernel_size, conv.out_channels
        batch, channels, h, w = x.shape
        n = (h - kh + 1) * (w - kw + 1)
        parts = triton.cdiv(n, tile["PIXELS"] * tile["STEPS"])
        sums = torch.empty((batch * parts, outputs), device=x.device, dtype=torch.float32)
        out = torch.empty((batch, outputs), device=x.device, dtype=x.dtype)
        sum_kernel[(batch * parts,)](
            x.contiguous(),
            conv.weight.contiguous(),
            conv.bias,
            sums,
            IN=channels,
            OUT=outputs,
            H=h,
            W=w,
            KH=kh,
            KW=kw,
            BLOCK_O=max(16, triton.next_power_of_2(outputs)),
            **tile,
        )
        join_kernel[(batch, triton.cdiv(outputs, 16))](
            sums, out, n, parts, C=outputs, BLOCK=128, BLOCK_C=16, num_warps=4
        )
        return out
