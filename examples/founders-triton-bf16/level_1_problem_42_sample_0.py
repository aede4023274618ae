"""2-D max pooling with stride 1, separably: maxima along a row first, then down a sliding window of rows.

A program walks down 19 output rows and keeps the row maxima of the window in registers, so that an output costs
about five loads instead of sixteen.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def row_maximum(
    x_ptr, row, columns, height, width, KERNEL: tl.constexpr, PADDING: tl.constexpr, BLOCK: tl.constexpr
):
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for tap in tl.static_range(KERNEL):
        index = columns - PADDING + tap
        inside = (index >= 0) & (index < width) & (row >= 0) & (row < height)
        best = nan_maximum(best, load(x_ptr + row * width + index, mask=inside, other=float("-inf")))
    return best


@triton.jit(do_not_specialize=["width", "out_width"])  # so every tap has one layout: a word a lane
def max_pool_4_kernel(
    x_ptr,
    y_ptr,
    height,
    width,
    out_height,
    out_width,
    PADDING: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(2).to(tl.int64)
    x_ptr += plane * height * width
    y_ptr += plane * out_height * out_width
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * ROWS
    a = row_maximum(x_ptr, first - PADDING, columns, height, width, 4, PADDING, BLOCK)
    b = row_maximum(x_ptr, first - PADDING + 1, columns, height, width, 4, PADDING, BLOCK)
    c = row_maximum(x_ptr, first - PADDING + 2, columns, height, width, 4, PADDING, BLOCK)
    for i in tl.static_range(ROWS):
        row = first + i
        d = row_maximum(x_ptr, row - PADDING + 3, columns, height, width, 4, PADDING, BLOCK)
        best = nan_maximum(nan_maximum(a, b), nan_maximum(c, d))
        mask = (columns < out_width) & (row < out_height)
        tl.store(y_ptr + row * out_width + columns, best, mask=mask)
        a, b, c = b, c, d


class ModelNew(nn.Module):
    """2-D max pooling with a 4 x 4 window and stride 1."""

    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int) -> None:
        super().__init__()
        if (kernel_size, stride, dilation) != (4, 1, 1):
            raise ValueError("this kernel is written for a 4 x 4 window, stride 1 and dilation 1")
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, channels, height, width = x.shape
        out_height, out_width = height + 2 * self.padding - 3, width + 2 * self.padding - 3
        y = torch.empty((batch, channels, out_height, out_width), device=x.device, dtype=x.dtype)
        grid = (triton.cdiv(out_width, 512), triton.cdiv(out_height, 19), batch * channels)
        max_pool_4_kernel[grid](
            x, y, height, width, out_height, out_width, PADDING=self.padding, ROWS=19, BLOCK=512, num_warps=4
        )
        return y
