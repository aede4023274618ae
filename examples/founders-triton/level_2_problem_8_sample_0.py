"""Convolution, division, max pooling, global mean, bias, sum over the channels, without a written convolution.

One kernel convolves, as products in TF32 as PyTorch does, with the two places of a pooling window along the width side by
side and the others one after the other, and writes a block's sum; a small kernel joins the blocks of a sample.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 256, "num_warps": 4, "num_stages": 1}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
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
    ROUND: tl.constexpr,
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
        x = tl.trans(nearest_tf32(x, ROUND))
        y = tl.dot(x, nearest_tf32(w, ROUND), y, input_precision="tf32")
    return y


@triton.jit
def pool_kernel(
    x_ptr,
    weight_ptr,
    conv_bias_ptr,
    part_ptr,
    factor,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    ROUND: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The sum of the maxima of BLOCK / WINDOW windows of an image."""
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
    bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0)
    best = tl.full([BLOCK, OUTPUTS], float("-inf"), tl.float32)
    for place in range(WINDOW * WINDOW):
        start = x_ptr + (place // WINDOW * HEIGHT + place % WINDOW) * WIDTH
        y = convolve(start, weight_ptr, places, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH, KERNEL, ROUND)
        best = tl.maximum(best, (y + bias[None, :]) * factor)
    y = tl.max(tl.reshape(best, [wins, WINDOW, OUTPUTS]), axis=1)
    there = ((first + tl.arange(0, wins)) < n)[:, None] & (o < OUT)[None, :]
    tl.store(part_ptr + tl.program_id(0), tl.sum(tl.sum(tl.where(there, y, 0.0), axis=1), axis=0))


@triton.jit
def join_kernel(part_ptr, bias_ptr, y_ptr, channels, blocks, n, OUTPUTS: tl.constexpr, BLOCK: tl.constexpr):
    """The blocks of an image together."""
    b = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = start + b < blocks
        total += tl.load(part_ptr + tl.program_id(0) * blocks + start + b, mask=there, other=0.0)
    o = tl.arange(0, OUTPUTS)
    bias = tl.sum(tl.load(bias_ptr + o, mask=o < channels, other=0.0), axis=0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(total, axis=0) / n + bias)


class ModelNew(nn.Module):
    """Convolution, division, max pooling, global average, bias, sum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        divisor: float,
        pool_size: tuple[int, int, int],
        bias_shape: tuple[int, ...],
        sum_dim: int,
    ):
        super().__init__()
        if len(set(kernel_size)) > 1 or tuple(pool_size) != (2, 2, 2) or sum_dim != 1:
            raise ValueError("this kernel is written for cubes, windows of 2 and the sum over the channels")
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.divisor = divisor
        self.max_pool = nn.MaxPool3d(pool_size)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.sum_dim = sum_dim

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
            "ROUND": x.is_cuda,
        }
        n = 1
        for size in (depth, height, width):
            n *= (size - kernel + 1) // 2
        blocks = triton.cdiv(n, tile["BLOCK"] // 2)
        parts = torch.empty(batch * blocks, device=x.device, dtype=torch.float32)
        y = torch.empty((batch, 1, 1, 1), device=x.device, dtype=x.dtype)
        weight = conv.weight.contiguous()
        pool_kernel[(batch * blocks,)](
            x, weight, conv.bias, parts, 1.0 / self.divisor, WINDOW=2, **shape, **tile
        )
        join_kernel[(batch,)](
            parts, self.bias, y, outputs, blocks, n, OUTPUTS=shape["OUTPUTS"], BLOCK=256, num_warps=4
        )
        return y
