"""Convolution, subtraction, hard swish, max pooling, Mish with channels last, as cuDNN convolves fastest: one pass
lays the input out so, and one pools the convolution's result, all in between in registers, and takes it back.

Inputs, weights and outputs are bf16, and so is what cuDNN makes; all after it is fp32 until it is written.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 32, "CHANNELS": 64, "num_warps": 4}


@triton.jit
def channels_last_kernel(
    x_ptr, last_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr
):
    """An image's [C, S] into [S, C]."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    there = (s < S) & (c < C)
    x = tl.load(x_ptr + first + c * S + s, mask=there).to(tl.float32)
    tl.store(last_ptr + first + s * C + c, x, mask=there)


@triton.jit
def mish(x):
    """x * tanh(softplus(x)); with e = exp(x) the hyperbolic tangent is a rational function of e."""
    e = tl.exp(tl.where(x > 20.0, 20.0, x))
    n = e * (e + 2.0)
    return x * n / (n + 2.0)


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def hard_swish(x):
    return x * clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


@triton.jit
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def pool_kernel(
    last_ptr,
    conv_bias_ptr,
    out_ptr,
    subtract,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """What follows the convolution, from [HEIGHT * WIDTH, C] to [C, n]."""
    n = (HEIGHT // WINDOW) * (WIDTH // WINDOW)
    blocks = tl.cdiv(n, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < n) & (c < C)
    row, column = s // (WIDTH // WINDOW), s % (WIDTH // WINDOW)
    first = last_ptr + image * HEIGHT * WIDTH * C + (row * WIDTH + column) * WINDOW * C + c
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C).to(tl.float32)
    result = tl.full([BLOCK_S, BLOCK_C], float("-inf"), tl.float32)
    for i in tl.static_range(WINDOW):
        for j in tl.static_range(WINDOW):
            x = tl.load(first + (i * WIDTH + j) * C, mask=there).to(tl.float32) + conv_bias
            result = nan_maximum(result, hard_swish(x - subtract))
    result = mish(result)
    tl.store(out_ptr + image * n * C + c * n + s, result, mask=there)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory."""
    batch, channels, height, width = x.shape
    last = torch.empty_like(x, memory_format=torch.channels_last)
    block_c = min(32, triton.next_power_of_2(channels))
    block_s = 2048 // block_c
    grid = (batch * triton.cdiv(height * width, block_s), triton.cdiv(channels, block_c))
    channels_last_kernel[grid](
        x.contiguous(), last, C=channels, S=height * width, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=4
    )
    return last


class ModelNew(nn.Module):
    """Convolution, subtraction, hard swish, max pooling, Mish."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        subtract_value: float,
        pool_kernel_size: int,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.subtract_value = subtract_value
        self.pool = nn.MaxPool2d(pool_kernel_size)
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile, window = self.conv, dict(TILE), self.pool.kernel_size
        block_s, block_c = tile.pop("PIXELS"), tile.pop("CHANNELS")
        last = F.conv2d(channels_last(x), conv.weight, None, conv.stride, conv.padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        out = torch.empty(
            (batch, channels, height // window, width // window), device=x.device, dtype=x.dtype
        )
        grid = (batch * triton.cdiv(out[0, 0].numel(), block_s), triton.cdiv(channels, block_c))
        pool_kernel[grid](
            last,
            conv.bias,
            out,
            self.subtract_value,
            C=channels,
            HEIGHT=height,
            WIDTH=width,
            WINDOW=window,
            BLOCK_S=block_s,
            BLOCK_C=block_c,
            **tile,
        )
        return out
