"""Convolution, subtraction, tanh, subtraction, average pooling: one pass lays the input out with channels last,
rounded to TF32, and one convolves it, as an implicit product on the tensor cores, in whole windows and stores only
their averages.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"WINDOWS": 64, "BLOCK_O": 128, "BLOCK_C": 32, "CACHED": False, "num_warps": 8, "num_stages": 3}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [block of outputs, block of inputs, tap, output, input], rounded to TF32."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = index % BLOCK_C
    rest = index // BLOCK_C
    o = rest % BLOCK_O
    rest = rest // BLOCK_O
    tap = rest % TAPS
    rest = rest // TAPS
    c += rest % tl.cdiv(IN, BLOCK_C) * BLOCK_C
    o += rest // tl.cdiv(IN, BLOCK_C) * BLOCK_O
    there = (index < total) & (c < IN) & (o < OUT)
    x = tl.load(weight_ptr + (o * IN + c) * TAPS + tap, mask=there, other=0.0)
    tl.store(packed_ptr + index, nearest_tf32(x, ROUND), mask=index < total)


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    S: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """An image's [C, S] into [S, PADDED], rounded to TF32."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    x = tl.load(x_ptr + image * (C * S) + c * S + s, mask=(s < S) & (c < C), other=0.0)
    tl.store(last_ptr + image * (PADDED * S) + s * PADDED + c, nearest_tf32(x, ROUND), mask=s < S)


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit(do_not_specialize=["nothing"])
def pool_kernel(
    last_ptr,
    packed_ptr,
    conv_bias_ptr,
    first_shift,
    second_shift,
    out_ptr,
    nothing,
    PADDED: tl.constexpr,
    OUT: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    WINDOW: tl.constexpr,
    SIDE: tl.constexpr,
    WINDOWS: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    CACHED: tl.constexpr,
):
    """BLOCK_O outputs of WINDOWS windows in a row, each padded to SIDE x SIDE pixels."""
    HEIGHT: tl.constexpr = (H - KH + 1) // WINDOW
    WIDTH: tl.constexpr = (W - KW + 1) // WINDOW
    TAPS: tl.constexpr = KH * KW
    across = tl.cdiv(WIDTH, WINDOWS)
    left = tl.program_id(0) % across * WINDOWS
    top = tl.program_id(0) // across % HEIGHT
    image = (tl.program_id(0) // (across * HEIGHT)).to(tl.int64)
    p = tl.arange(0, SIDE * WINDOWS * SIDE)
    i, j = p // (WINDOWS * SIDE), p % SIDE
    row = tl.minimum(top * WINDOW + i, H - KH)
    column = tl.minimum((left + p // SIDE % WINDOWS) * WINDOW + j, W - KW)
    c = tl.arange(0, BLOCK_C)
    o = tl.arange(0, BLOCK_O)
    last_ptr += image * (H * W * PADDED)
    if CACHED:  # then addresses are not known to allow copies of 16 bytes, which pass by the L1 cache
        last_ptr += 2 * nothing
    steps: tl.constexpr = PADDED // BLOCK_C * TAPS
    packed_ptr += tl.program_id(1) * (steps * BLOCK_O * BLOCK_C)
    x_offsets = (row * W + column)[:, None] * PADDED + c[None, :]
    w_offsets = o[:, None] * BLOCK_C + c[None, :]
    acc = tl.zeros([SIDE * WINDOWS * SIDE, BLOCK_O], tl.float32)
    for t in range(steps):
        tap = t % TAPS
        start = (tap // KW * W + tap % KW) * PADDED + t // TAPS * BLOCK_C
        x = tl.load(last_ptr + start + x_offsets)
        w = tl.load(packed_ptr + t * (BLOCK_O * BLOCK_C) + w_offsets)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="tf32")
    o += tl.program_id(1) * BLOCK_O
    x = tl.trans(acc) + tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0)[:, None]
    x = tanh(x - first_shift) - second_shift
    if SIDE > WINDOW:
        x = tl.where(((i < WINDOW) & (j < WINDOW))[None, :], x, 0.0)
    x = tl.sum(tl.sum(tl.reshape(x, [BLOCK_O, SIDE, WINDOWS, SIDE]), axis=3), axis=1)
    x *= 1.0 / (WINDOW * WINDOW)
    w = left + tl.arange(0, WINDOWS)[None, :]
    o = o[:, None]
    out_ptr += image * (OUT * HEIGHT * WIDTH) + top * WIDTH
    tl.store(out_ptr + o * (HEIGHT * WIDTH) + w, x, mask=(o < OUT) & (w < WIDTH))


class ModelNew(nn.Module):
    """Convolution, subtraction, tanh, subtraction, average pooling."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        subtract1_value: float,
        subtract2_value: float,
        kernel_size_pool: int,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.subtract1_value = subtract1_value
        self.subtract2_value = subtract2_value
        self.avgpool = nn.AvgPool2d(kernel_size_pool)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, window, tile = self.conv, self.avgpool.kernel_size, dict(TILE)
        (kh, kw), outputs = conv.kernel_size, conv.out_channels
        batch, channels, h, w = x.shape
        block_c = tile["BLOCK_C"] = min(tile["BLOCK_C"], max(16, triton.next_power_of_2(channels)))
        block_o = tile["BLOCK_O"] = min(tile["BLOCK_O"], max(16, triton.next_power_of_2(outputs)))
        padded, slices = triton.cdiv(channels, block_c) * block_c, triton.cdiv(outputs, block_o)
        packed = torch.empty(slices * block_o * padded * kh * kw, device=x.device, dtype=torch.float32)
        pack_kernel[(triton.cdiv(packed.numel(), 512),)](
            conv.weight.contiguous(),
            packed,
            packed.numel(),
            IN=channels,
            OUT=outputs,
            TAPS=kh * kw,
            BLOCK_O=block_o,
            BLOCK_C=block_c,
            ROUND=x.is_cuda,
            BLOCK=512,
            num_warps=4,
        )
        last = torch.empty((batch, h * w, padded), device=x.device, dtype=torch.float32)
        channels_last_kernel[(batch * triton.cdiv(h * w, 64), padded // block_c)](
            x.contiguous(),
            last,
            C=channels,
            PADDED=padded,
            S=h * w,
            ROUND=x.is_cuda,
            BLOCK_S=64,
            BLOCK_C=block_c,
            num_warps=4,
        )
        height, width = (h - kh + 1) // window, (w - kw + 1) // window
        out = torch.empty((batch, outputs, height, width), device=x.device, dtype=x.dtype)
        pool_kernel[(batch * height * triton.cdiv(width, tile["WINDOWS"]), slices)](
            last,
            packed,
            conv.bias,
            self.subtract1_value,
            self.subtract2_value,
            out,
            0,
            PADDED=padded,
            OUT=outputs,
            H=h,
            W=w,
            KH=kh,
            KW=kw,
            WINDOW=window,
            SIDE=triton.next_power_of_2(window),
            **tile,
        )
        return out
