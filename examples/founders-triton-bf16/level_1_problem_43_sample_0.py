"""3-D max pooling with 3 x 3 x 3 taps, stride 2 and dilation 3, walking through the depth with whole rows.

A program reads whole rows as they lie, 16 bytes a load. It takes the maxima of three rows of a slice, and then
of the three slices of a window, before it cuts the row into windows: a value costs about two comparisons. The
slices with odd numbers serve two windows each, and wait in registers for the second. The values of a row stay
in registers too: of eight columns, only four neighbours come from other threads.

Inputs, weights and outputs are bf16; it compares in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"ROWS": 8, "SLICES": 31, "WRITE": "", "num_warps": 4}


@triton.jit
def apart(x):
    """[rows, columns] as eight tensors of every eighth column."""
    even, odd = tl.split(tl.reshape(x, [x.shape[0], x.shape[1] // 8, 2, 2, 2]))
    x04, x26 = tl.split(even)
    x15, x37 = tl.split(odd)
    x0, x4 = tl.split(x04)
    x2, x6 = tl.split(x26)
    x1, x5 = tl.split(x15)
    x3, x7 = tl.split(x37)
    return x0, x1, x2, x3, x4, x5, x6, x7


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def slice_maximum(x_ptr, z, rows, columns, DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """The maxima of three rows each of a slice."""
    inside = (columns < WIDTH) & (z >= 0) & (z < DEPTH)
    x_ptrs = x_ptr + z * (HEIGHT * WIDTH) + rows * WIDTH + columns
    x0 = tl.load(x_ptrs, mask=inside & (rows >= 0) & (rows < HEIGHT), other=float("-inf"))
    x1 = tl.load(x_ptrs + 3 * WIDTH, mask=inside & (rows + 3 < HEIGHT), other=float("-inf"))
    x2 = tl.load(x_ptrs + 6 * WIDTH, mask=inside & (rows + 6 < HEIGHT), other=float("-inf"))
    return maximum(maximum(x0.to(tl.float32), x1.to(tl.float32)), x2.to(tl.float32))


@triton.jit
def max_pool_kernel(
    x_ptr,
    y_ptr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    SLICES: tl.constexpr,
    BLOCK: tl.constexpr,
    WRITE: tl.constexpr,
):
    """SLICES slices of ROWS output rows."""
    out_depth: tl.constexpr = (DEPTH - 5) // 2 + 1
    out_height: tl.constexpr = (HEIGHT - 5) // 2 + 1
    out_width: tl.constexpr = (WIDTH - 5) // 2 + 1
    blocks: tl.constexpr = (out_height + ROWS - 1) // ROWS
    walks: tl.constexpr = (out_depth + SLICES - 1) // SLICES
    last: tl.constexpr = BLOCK // 8 - 1
    plane = (tl.program_id(0) // (blocks * walks)).to(tl.int64)
    first = tl.program_id(0) // blocks % walks * SLICES
    out_rows = (tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS))[:, None]
    x_ptr += plane * (DEPTH * HEIGHT * WIDTH)
    y_ptr += plane * (out_depth * out_height * out_width)
    rows = out_rows * 2 - 1
    columns = tl.arange(0, BLOCK)[None, :]
    outs = tl.arange(0, BLOCK // 2)[None, :]
    piece = tl.arange(0, BLOCK // 8)[None, :] + tl.zeros([ROWS, 1], tl.int32)
    before = tl.maximum(piece - 1, 0)
    after = tl.minimum(piece + 1, last)
    nothing = float("-inf")
    one = slice_maximum(x_ptr, first * 2 - 1, rows, columns, DEPTH, HEIGHT, WIDTH)
    two = slice_maximum(x_ptr, first * 2 + 1, rows, columns, DEPTH, HEIGHT, WIDTH)
    three = slice_maximum(x_ptr, first * 2 + 3, rows, columns, DEPTH, HEIGHT, WIDTH)
    for i in range(SLICES):
        z = (first + i) * 2
        even = slice_maximum(x_ptr, z + 2, rows, columns, DEPTH, HEIGHT, WIDTH)
        four = slice_maximum(x_ptr, z + 5, rows, columns, DEPTH, HEIGHT, WIDTH)
        x0, x1, x2, x3, x4, x5, x6, x7 = apart(maximum(maximum(one, even), four))
        one = two
        two = three
        three = four
        left7 = tl.where(piece > 0, tl.gather(x7, before, 1), nothing)
        right0 = tl.where(piece < last, tl.gather(x0, after, 1), nothing)
        right1 = tl.where(piece < last, tl.gather(x1, after, 1), nothing)
        right3 = tl.where(piece < last, tl.gather(x3, after, 1), nothing)
        y0 = maximum(maximum(left7, x2), x5)
        y1 = maximum(maximum(x1, x4), x7)
        y2 = maximum(maximum(x3, x6), right1)
        y3 = maximum(maximum(x5, right0), right3)
        y = tl.reshape(tl.join(tl.join(y0, y2), tl.join(y1, y3)), [ROWS, BLOCK // 2])
        there = (out_rows < out_height) & (outs < out_width) & (first + i < out_depth)
        tl.store(
            y_ptr + ((first + i) * out_height + out_rows) * out_width + outs,
            y.to(y_ptr.dtype.element_ty),
            mask=there,
            eviction_policy=WRITE,
        )


class ModelNew(nn.Module):
    """3-D max pooling with 3 x 3 x 3 taps, stride 2, padding 1 and dilation 3."""

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
        dilation: int = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        if return_indices or ceil_mode:
            raise ValueError("return_indices, ceil_mode: not written in this kernel")
        if (kernel_size, stride, padding, dilation) != (3, 2, 1, 3):
            raise ValueError("this kernel is written for windows of 3, stride 2, padding 1 and dilation 3")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, channels, depth, height, width = x.shape
        if width > 2048 or depth * height * width >= 2**31:
            raise ValueError("this kernel is written for smaller volumes")
        outs = [(size - 5) // 2 + 1 for size in (depth, height, width)]
        y = torch.empty((batch, channels, *outs), device=x.device, dtype=x.dtype)
        grid = (batch * channels * triton.cdiv(outs[0], TILE["SLICES"]) * triton.cdiv(outs[1], TILE["ROWS"]),)
        max_pool_kernel[grid](
            x,
            y,
            DEPTH=depth,
            HEIGHT=height,
            WIDTH=width,
            BLOCK=max(64, triton.next_power_of_2(width)),
            **TILE,
        )
        return y
