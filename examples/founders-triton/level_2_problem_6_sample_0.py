"""Convolution, softmax over the channels, max pooling twice, in one kernel.

Two poolings by 2 are one by 4. A program convolves one place of its windows after the other, as products that are
split in three, as exact as fp32, with the four places along the width side by side, and keeps the maximum of their
softmax.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PRECISION": "tf32x3", "BLOCK": 128, "num_warps": 4, "num_stages": 1}


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
        x = tl.trans(x)
        y = tl.dot(x, w, y, input_precision=PRECISION)
    return y


@triton.jit
def softmax_pool_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    y_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    PRECISION: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """All channels of BLOCK / WINDOW windows of an image."""
    height: tl.constexpr = (HEIGHT - KERNEL + 1) // WINDOW
    width: tl.constexpr = (WIDTH - KERNEL + 1) // WINDOW
    n: tl.constexpr = (DEPTH - KERNEL + 1) // WINDOW * height * width
    wins: tl.constexpr = BLOCK // WINDOW
    blocks: tl.constexpr = (n + wins - 1) // wins
    image = (tl.program_id(0) // blocks).to(tl.int64)
    first = tl.program_id(0) % blocks * wins
    position = first * WINDOW + tl.arange(0, BLOCK)
    at = tl.minimum(position // WINDOW, n - 1)
    places = (at // (height * width) * HEIGHT + at // width % height) * WIDTH + at % width
    places = places * WINDOW + position % WINDOW
    x_ptr += image * (IN * DEPTH * HEIGHT * WIDTH)
    o = tl.arange(0, OUTPUTS)
    bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=float("-inf"))
    best = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    for place in range(WINDOW * WINDOW):
        start = x_ptr + (place // WINDOW * HEIGHT + place % WINDOW) * WIDTH
        y = convolve(start, weight_ptr, places, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH, KERNEL, PRECISION)
        y += bias[None, :]
        y = tl.exp(y - tl.max(y, axis=1)[:, None])
        best = tl.maximum(best, y / tl.sum(y, axis=1)[:, None])
    y = tl.max(tl.reshape(best, [wins, WINDOW, OUTPUTS]), axis=1)
    win = first + tl.arange(0, wins)[:, None]
    there = (win < n) & (o < OUT)[None, :]
    tl.store(y_ptr + image * (OUT * n) + o[None, :] * n + win, y, mask=there)


class ModelNew(nn.Module):
    """Convolution, softmax over channels, max pooling twice."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool_kernel_size: int):
        super().__init__()
        if pool_kernel_size != 2:
            raise ValueError("this kernel is written for pooling windows of 2")
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.pool1 = nn.MaxPool3d(pool_kernel_size)
        self.pool2 = nn.MaxPool3d(pool_kernel_size)

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
        sizes = [(size - kernel + 1) // 4 for size in (depth, height, width)]
        y = torch.empty((batch, outputs, *sizes), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(y[0, 0].numel(), tile["BLOCK"] // 4),)
        softmax_pool_kernel[grid](x, conv.weight.contiguous(), conv.bias, y, WINDOW=4, **shape, **tile)
        return y
