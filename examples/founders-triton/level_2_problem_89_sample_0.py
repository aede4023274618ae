"""Transposed convolution, max pooling, softmax, subtraction, swish, maximum over the channels, in one kernel.

With stride 2 and padding 1, a pooling window's 2 x 2 x 2 results depend on 2 x 2 x 2 inputs, so a program makes all
channels of them as one product, in TF32 as PyTorch convolves, and writes only the maximum.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 64, "POSITIONS": 1024, "num_warps": 4, "num_stages": 1}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def fold_kernel(
    weight_ptr,
    full_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [2 x 2 x 2 results, output, input, 2 x 2 x 2 inputs], zeros where an input does not matter."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tap, c, rest = index % 8, index // 8 % IN, index // (8 * IN)
    o, way = rest % OUTPUTS, rest // OUTPUTS
    place = tl.zeros([BLOCK], tl.int32)
    for bit in tl.static_range(3):
        odd, other = way >> (2 - bit) & 1, tap >> (2 - bit) & 1
        place = place * 3 + tl.where(odd == 0, 1, 2 - 2 * other)
    there = (o < OUT) & (way < 8) & (tap & ~way == 0)
    x = tl.load(weight_ptr + (c * OUT + o) * 27 + place, mask=there, other=0.0)
    tl.store(full_ptr + index, nearest_tf32(x, ROUND), mask=way < 8)


@triton.jit
def load_weights(full_ptr, IN: tl.constexpr, ROWS: tl.constexpr, TAPS: tl.constexpr):
    """[(input, tap), (result, output)]."""
    k = tl.arange(0, TAPS)[:, None]
    row = tl.arange(0, ROWS)[None, :]
    return tl.load(full_ptr + row * (IN * 8) + k, mask=k < IN * 8, other=0.0)


@triton.jit
def convolve(
    x_ptr,
    w,
    place,
    edge,
    IN: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
):
    """[position, (result, output)]; an edge's bits say along which axes there is no next input, or none at all."""
    k = tl.arange(0, TAPS)
    offsets = ((k // 8 * DEPTH + k // 4 % 2) * HEIGHT + k // 2 % 2) * WIDTH + k % 2
    mask = (k < IN * 8)[:, None] & ((k % 8 + 8)[:, None] & edge[None, :] == 0)
    x = tl.load(x_ptr + offsets[:, None] + place[None, :], mask=mask, other=0.0)
    return tl.dot(tl.trans(nearest_tf32(x, ROUND)), w, input_precision="tf32")


@triton.jit
def edges(place, DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """A bit for each axis along which a position is the last, and one where it is outside."""
    z, row, column = place // (HEIGHT * WIDTH), place // WIDTH % HEIGHT, place % WIDTH
    edge = tl.where(z == DEPTH - 1, 4, 0) + tl.where(row == HEIGHT - 1, 2, 0)
    return edge + tl.where(column == WIDTH - 1, 1, 0) + tl.where(z < DEPTH, 0, 8)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def channel_kernel(
    x_ptr,
    full_ptr,
    conv_bias_ptr,
    subtract_ptr,
    y_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
    POSITIONS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The results of POSITIONS windows of an image."""
    n: tl.constexpr = DEPTH * HEIGHT * WIDTH
    parts: tl.constexpr = (n + POSITIONS - 1) // POSITIONS
    image = (tl.program_id(0) // parts).to(tl.int64)
    x_ptr += image * (IN * n)
    first = tl.program_id(0) % parts * POSITIONS
    w = load_weights(full_ptr, IN, 8 * OUTPUTS, TAPS)
    o = tl.arange(0, OUTPUTS)
    bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=float("-inf"))
    subtract = tl.load(subtract_ptr + o, mask=o < OUT, other=0.0)
    for start in range(first, min(first + POSITIONS, n), BLOCK):
        place = start + tl.arange(0, BLOCK)
        edge = edges(place, DEPTH, HEIGHT, WIDTH)
        x = convolve(x_ptr, w, place, edge, IN, DEPTH, HEIGHT, WIDTH, TAPS, ROUND)
        x = tl.max(tl.reshape(x, [BLOCK, 8, OUTPUTS]), axis=1) + bias[None, :]
        x = tl.exp(x - tl.max(x, axis=1)[:, None])
        x = x / tl.sum(x, axis=1)[:, None] - subtract[None, :]
        x = tl.where((o < OUT)[None, :], x * sigmoid(x), float("-inf"))
        tl.store(y_ptr + image * n + place, tl.max(x, axis=1), mask=place < n)


class ModelNew(nn.Module):
    """Transposed convolution, max pooling, softmax over channels, subtraction, swish, maximum."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        pool_kernel_size: int,
        pool_stride: int,
        pool_padding: int,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        if (kernel_size, stride, padding, output_padding) != (3, 2, 1, 1):
            raise ValueError(
                "this kernel is written for a 3 x 3 x 3 kernel, stride 2, padding 1 and output padding 1"
            )
        self.max_pool = nn.MaxPool3d(kernel_size=pool_kernel_size, stride=pool_stride, padding=pool_padding)
        if (pool_kernel_size, pool_stride, pool_padding) != (2, 2, 0):
            raise ValueError("this kernel is written for windows of 2 that do not overlap, without padding")
        self.subtract = nn.Parameter(torch.randn(out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv_transpose, dict(TILE)
        batch, inputs, depth, height, width = x.shape
        outputs = conv.out_channels
        at_once = triton.next_power_of_2(outputs)
        full = torch.empty(8 * at_once * inputs * 8, device=x.device, dtype=torch.float32)
        shape = {"IN": inputs, "OUT": outputs, "OUTPUTS": at_once, "ROUND": x.is_cuda}
        fold_kernel[(triton.cdiv(full.numel(), 128),)](
            conv.weight.contiguous(), full, BLOCK=128, num_warps=4, **shape
        )
        shape |= {"DEPTH": depth, "HEIGHT": height, "WIDTH": width}
        shape |= {"TAPS": max(16, triton.next_power_of_2(inputs * 8))}
        y = torch.empty((batch, depth, height, width), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(depth * height * width, tile["POSITIONS"]),)
        channel_kernel[grid](x, full, conv.bias, self.subtract, y, **shape, **tile)
        return y
