"""Convolution, average pooling, sigmoid, sum over each sample, with the pooling moved before the convolution.

An average over windows of a convolution is the convolution of the input's averages: an exact identity. A window
of 4 x 4 results needs nine averages of 4 x 4 inputs, one for each tap, and one product with the weights
as they are. One kernel reads the input, takes the averages in fp32 and multiplies them on the tensor cores in
TF32, as PyTorch convolves; it sums the sigmoids of a block before anything is written, and a small kernel joins
the blocks.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 256, "BLOCK_O": 64, "num_warps": 16}


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
    BLOCK_O: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [eight inputs, pair of taps, output, input, tap], with zeros behind the last of each."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_size: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O * BLOCK_O
    o, rest = index // 16 % o_size, index // (16 * o_size)
    tap, c = rest % 5 * 2 + index % 2, rest // 5 * 8 + index // 2 % 8
    there = (index < total) & (tap < 9) & (o < OUT) & (c < IN)
    x = tl.load(weight_ptr + (o * IN + c) * 9 + tap, mask=there, other=0.0)
    tl.store(packed_ptr + index, nearest_tf32(x, ROUND), mask=index < total)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def down(x_ptrs, mask, WIDTH: tl.constexpr):
    """Sums of four rows, from the first, second and third on."""
    x1 = tl.load(x_ptrs + WIDTH, mask=mask, other=0.0)
    x2 = tl.load(x_ptrs + 2 * WIDTH, mask=mask, other=0.0)
    x3 = tl.load(x_ptrs + 3 * WIDTH, mask=mask, other=0.0)
    x4 = tl.load(x_ptrs + 4 * WIDTH, mask=mask, other=0.0)
    shared = x2 + x3
    first = tl.load(x_ptrs, mask=mask, other=0.0) + x1 + shared
    third = tl.load(x_ptrs + 5 * WIDTH, mask=mask, other=0.0) + x4 + shared
    return first, shared + x1 + x4, third


@triton.jit
def across(four, two):
    """Averages of four columns, from the first, second and third on."""
    even, odd = tl.split(tl.reshape(four, [four.shape[0], four.shape[1], 2, 2]))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    x4, x5 = tl.split(two)
    shared = x2 + x3
    return (x0 + x1 + shared) * 0.0625, (x1 + x4 + shared) * 0.0625, (x4 + x5 + shared) * 0.0625


@triton.jit
def product(acc, first, second, w_ptrs, ROUND: tl.constexpr):
    """What two taps add to the convolution."""
    x = tl.permute(tl.join(first, second), (1, 0, 2))
    x = nearest_tf32(tl.reshape(x, [x.shape[0], 16]), ROUND)
    return tl.dot(x, tl.load(w_ptrs), acc, input_precision="tf32")


@triton.jit
def conv_sum_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    part_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr,
):
    """The sum of the sigmoids of BLOCK windows of an image."""
    width: tl.constexpr = (WIDTH - 2) // 4
    n: tl.constexpr = (HEIGHT - 2) // 4 * width
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    pair: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O * BLOCK_O * 16
    image = (tl.program_id(0) // blocks).to(tl.int64)
    m = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    at = tl.minimum(m, n - 1)
    corners = (at // width * WIDTH + at % width) * 4
    x_ptr += image * (IN * HEIGHT * WIDTH)
    w_ptrs = packed_ptr + o[None, :] * 16 + tl.arange(0, 16)[:, None]
    acc = tl.zeros([BLOCK, BLOCK_O], tl.float32)
    for start in range(0, IN, 8):
        c = start + tl.arange(0, 8)[:, None, None]
        x_ptrs = x_ptr + c * (HEIGHT * WIDTH) + corners[None, :, None]
        four0, four1, four2 = down(x_ptrs + tl.arange(0, 4)[None, None, :], c < IN, WIDTH)
        two0, two1, two2 = down(x_ptrs + 4 + tl.arange(0, 2)[None, None, :], c < IN, WIDTH)
        x0, x1, x2 = across(four0, two0)
        x3, x4, x5 = across(four1, two1)
        x6, x7, x8 = across(four2, two2)
        acc = product(acc, x0, x1, w_ptrs, ROUND)
        acc = product(acc, x2, x3, w_ptrs + pair, ROUND)
        acc = product(acc, x4, x5, w_ptrs + 2 * pair, ROUND)
        acc = product(acc, x6, x7, w_ptrs + 3 * pair, ROUND)
        acc = product(acc, x8, tl.zeros_like(x8), w_ptrs + 4 * pair, ROUND)
        w_ptrs += 5 * pair
    y = sigmoid(acc + tl.load(bias_ptr + o, mask=o < OUT, other=0.0)[None, :])
    there = (m < n)[:, None] & (o < OUT)[None, :]
    total = tl.sum(tl.sum(tl.where(there, y, 0.0), axis=1), axis=0)
    tl.store(part_ptr + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), total)


@triton.jit
def join_kernel(part_ptr, out_ptr, blocks, BLOCK: tl.constexpr):
    """The blocks of an image together."""
    b = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = start + b < blocks
        total += tl.load(part_ptr + tl.program_id(0) * blocks + start + b, mask=there, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, axis=0))


class ModelNew(nn.Module):
    """Convolution, average pooling, sigmoid, sum per sample."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool_kernel_size: int):
        super().__init__()
        if (kernel_size, pool_kernel_size) != (3, 4):
            raise ValueError("this kernel is written for a 3 x 3 kernel and pooling windows of 4 x 4")
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.avg_pool = nn.AvgPool2d(pool_kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv, dict(TILE)
        batch, inputs, height, width = x.shape
        outputs = conv.out_channels
        tile["BLOCK_O"] = min(tile["BLOCK_O"], max(16, triton.next_power_of_2(outputs)))
        slices = triton.cdiv(outputs, tile["BLOCK_O"])
        total = triton.cdiv(inputs, 8) * 5 * slices * tile["BLOCK_O"] * 16
        packed = torch.empty(total, device=x.device, dtype=torch.float32)
        pack_kernel[(triton.cdiv(total, 256),)](
            conv.weight.contiguous(),
            packed,
            total,
            IN=inputs,
            OUT=outputs,
            BLOCK_O=tile["BLOCK_O"],
            ROUND=x.is_cuda,
            BLOCK=256,
            num_warps=4,
        )
        blocks = triton.cdiv((height - 2) // 4 * ((width - 2) // 4), tile["BLOCK"])
        parts = torch.empty(batch * blocks * slices, device=x.device, dtype=torch.float32)
        y = torch.empty(batch, device=x.device, dtype=x.dtype)
        conv_sum_kernel[(batch * blocks, slices)](
            x,
            packed,
            conv.bias,
            parts,
            IN=inputs,
            OUT=outputs,
            HEIGHT=height,
            WIDTH=width,
            ROUND=x.is_cuda,
            **tile,
        )
        join_kernel[(batch,)](parts, y, blocks * slices, BLOCK=256, num_warps=4)
        return y
