"""First convolution of AlexNet (11 x 11, stride 4, 3 channels), as one implicit product on the tensor cores.

The depth of the product runs along the taps of a row, padded to a window of fixed width, so that loads are contiguous
although the stride is four. The weight is first packed in that order; the bias is added to the accumulator.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_P": 64, "BLOCK_K": 64, "WINDOW": 16, "num_warps": 4, "num_stages": 3}


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    DEPTH: tl.constexpr,
    KERNEL: tl.constexpr,
    WINDOW: tl.constexpr,
    OFFSET: tl.constexpr,
    OUT: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [block of the depth, output, depth within the block]; depth is (channel, tap row, window)."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = index // BLOCK_K % OUT
    k = index // (BLOCK_K * OUT) * BLOCK_K + index % BLOCK_K
    tap = k % WINDOW - OFFSET
    there = (index < total) & (k < DEPTH * WINDOW) & (tap >= 0) & (tap < KERNEL)
    x = tl.load(weight_ptr + (o * DEPTH + k // WINDOW) * KERNEL + tap, mask=there, other=0.0)
    tl.store(packed_ptr + index, x, mask=index < total)


@triton.jit
def rounded(x):
    """PyTorch rounds a convolution before it adds the bias."""
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def conv_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    y_ptr,
    places,
    IN: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    OFFSET: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """96 outputs at some places: 64 and 32 share what is read."""
    p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = p // (OH * OW)
    place = (p % (OH * OW)).to(tl.int32)
    top = place // OW * STRIDE - PADDING
    left = place % OW * STRIDE - (PADDING + OFFSET)
    x_rows = x_ptr + sample * (IN * H * W)
    inside = p < places
    depth = tl.arange(0, BLOCK_K)
    first = tl.zeros([BLOCK_P, 64], tl.float32)
    second = tl.zeros([BLOCK_P, 32], tl.float32)
    low = packed_ptr + tl.arange(0, 64)[:, None] * BLOCK_K + depth[None, :]
    high = packed_ptr + 64 * BLOCK_K + tl.arange(0, 32)[:, None] * BLOCK_K + depth[None, :]
    for t in range((IN * KERNEL * WINDOW + BLOCK_K - 1) // BLOCK_K):
        k = t * BLOCK_K + depth
        line = k // WINDOW
        row = top[:, None] + (line % KERNEL)[None, :]
        column = left[:, None] + (k % WINDOW)[None, :]
        mask = (
            (row >= 0)
            & (row < H)
            & (column >= 0)
            & (column < W)
            & (line < IN * KERNEL)[None, :]
            & inside[:, None]
        )
        x = tl.load(
            x_rows[:, None] + ((line // KERNEL * (H * W))[None, :] + row * W + column), mask=mask, other=0.0
        )
        a = tl.load(low + t * (96 * BLOCK_K))
        b = tl.load(high + t * (96 * BLOCK_K))
        # What lies in the window beside the kernel meets a weight of zero.
        first = tl.dot(x, tl.trans(a), first)
        second = tl.dot(x, tl.trans(b), second)
    o = tl.arange(0, 64)
    y_rows = y_ptr + sample * (96 * OH * OW) + place
    y = rounded(tl.trans(first)) + tl.load(bias_ptr + o).to(tl.float32)[:, None]
    tl.store(y_rows[None, :] + o[:, None] * (OH * OW), y, mask=inside[None, :])
    o = 64 + tl.arange(0, 32)
    y = rounded(tl.trans(second)) + tl.load(bias_ptr + o).to(tl.float32)[:, None]
    tl.store(y_rows[None, :] + o[:, None] * (OH * OW), y, mask=inside[None, :])


class ModelNew(nn.Module):
    """The first convolution of AlexNet."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, kernel_size=11, stride=4, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, kernel, stride, padding = self.conv1, 11, 4, 2
        batch, channels, height, width = x.shape
        if channels != 3:
            raise ValueError("this kernel is written for three channels")
        out_height, out_width = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
        window, block = TILE["WINDOW"], TILE["BLOCK_K"]
        offset = 2 if window == 16 else 0  # so that windows of sixteen begin at multiples of four
        total = triton.cdiv(channels * kernel * window, block) * 96 * block
        packed = torch.empty(total, device=x.device, dtype=x.dtype)
        pack_kernel[(triton.cdiv(total, 512),)](
            conv.weight.contiguous(),
            packed,
            total,
            DEPTH=channels * kernel,
            KERNEL=kernel,
            WINDOW=window,
            OFFSET=offset,
            OUT=96,
            BLOCK_K=block,
            BLOCK=512,
            num_warps=4,
        )
        y = torch.empty((batch, 96, out_height, out_width), device=x.device, dtype=x.dtype)
        places = batch * out_height * out_width
        conv_kernel[(triton.cdiv(places, TILE["BLOCK_P"]),)](
            x,
            packed,
            conv.bias,
            y,
            places,
            IN=channels,
            H=height,
            W=width,
            OH=out_height,
            OW=out_width,
            KERNEL=kernel,
            STRIDE=stride,
            PADDING=padding,
            OFFSET=offset,
            **TILE,
        )
        return y
