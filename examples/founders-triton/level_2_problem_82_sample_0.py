"""Convolution, tanh, scaling, bias, max pooling in one kernel: an implicit product on the tensor cores (split in
three, as exact as fp32) makes whole windows, and only their results are stored. Tanh rises everywhere, so that the
window's maximum (its minimum where the factor is negative) is taken first.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PRECISION": "tf32x3", "WINDOWS": 4, "BLOCK_K": 16, "PIXELS_FIRST": False, "num_warps": 4}


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
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def pool_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    bias_ptr,
    factor,
    out_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    WINDOW: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK_O: tl.constexpr,
    PRECISION: tl.constexpr,
    WINDOWS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIXELS_FIRST: tl.constexpr,
):
    """All outputs of WINDOWS windows in a row, each padded to SIDE x SIDE pixels."""
    HEIGHT: tl.constexpr = (H - KH + 1) // WINDOW
    WIDTH: tl.constexpr = (W - KW + 1) // WINDOW
    across = tl.cdiv(WIDTH, WINDOWS)
    left = tl.program_id(0) % across * WINDOWS
    top = tl.program_id(0) // across % HEIGHT
    image = (tl.program_id(0) // (across * HEIGHT)).to(tl.int64)
    p = tl.arange(0, SIDE * WINDOWS * SIDE)
    i, j = p // (WINDOWS * SIDE), p % SIDE
    row = tl.minimum(top * WINDOW + i, H - KH)
    column = tl.minimum((left + p // SIDE % WINDOWS) * WINDOW + j, W - KW)
    x = convolve(
        x_ptr + image * (IN * H * W),
        weight_ptr,
        conv_bias_ptr,
        row * W + column,
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
    sign = tl.where(factor < 0.0, -1.0, 1.0)
    x *= sign
    if SIDE > WINDOW:
        x = tl.where(((i < WINDOW) & (j < WINDOW))[None, :], x, float("-inf"))
    x = tl.reshape(x, [BLOCK_O, SIDE, WINDOWS, SIDE])
    x = tl.reduce(tl.reduce(x, 3, nan_maximum), 1, nan_maximum)
    o = tl.arange(0, BLOCK_O)[:, None]
    x = tanh(x * sign) * factor + tl.load(bias_ptr + o, mask=o < OUT, other=0.0)
    w = left + tl.arange(0, WINDOWS)[None, :]
    out_ptr += image * (OUT * HEIGHT * WIDTH) + top * WIDTH
    tl.store(out_ptr + o * (HEIGHT * WIDTH) + w, x, mask=(o < OUT) & (w < WIDTH))


class ModelNew(nn.Module):
    """Convolution, tanh, scale, bias, max pooling."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scaling_factor: float,
        bias_shape: tuple[int, ...],
        pool_kernel_size: int,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scaling_factor = scaling_factor
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.max_pool = nn.MaxPool2d(pool_kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, window, tile = self.conv, self.max_pool.kernel_size, dict(TILE)
        (kh, kw), outputs = conv.kernel_size, conv.out_channels
        batch, channels, h, w = x.shape
        height, width = (h - kh + 1) // window, (w - kw + 1) // window
        out = torch.empty((batch, outputs, height, width), device=x.device, dtype=x.dtype)
        pool_kernel[(batch * height * triton.cdiv(width, tile["WINDOWS"]),)](
            x.contiguous(),
            conv.weight.contiguous(),
            conv.bias,
            self.bias,
            self.scaling_factor,
            out,
            IN=channels,
            OUT=outputs,
            H=h,
            W=w,
            KH=kh,
            KW=kw,
            WINDOW=window,
            SIDE=triton.next_power_of_2(window),
            BLOCK_O=max(16, triton.next_power_of_2(outputs)),
            **tile,
        )
        return out
