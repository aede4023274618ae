"""1-D average pooling: neighbouring outputs in neighbouring lanes, so that the taps after the first hit the cache.

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


@triton.jit(do_not_specialize=["length", "out_length"])  # so every tap has one layout: a word a lane
def average_pool_kernel(
    x_ptr,
    y_ptr,
    length,
    out_length,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    blocks = tl.cdiv(out_length, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for tap in tl.static_range(KERNEL):
        index = columns * STRIDE - PADDING + tap
        inside = (index >= 0) & (index < length) & (columns < out_length)
        total += load(x_ptr + row * length + index, mask=inside, other=0.0)
    tl.store(y_ptr + row * out_length + columns, total * (1.0 / KERNEL), mask=columns < out_length)


class ModelNew(nn.Module):
    """1-D average pooling; the padding counts as zeros."""

    def __init__(self, kernel_size: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.taps = (kernel_size, stride, padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        kernel, stride, padding = self.taps
        length = x.shape[-1]
        out_length = (length + 2 * padding - kernel) // stride + 1
        y = torch.empty((*x.shape[:-1], out_length), device=x.device, dtype=x.dtype)
        grid = (x.numel() // length * triton.cdiv(out_length, 2048),)
        average_pool_kernel[grid](
            x, y, length, out_length, KERNEL=kernel, STRIDE=stride, PADDING=padding, BLOCK=2048, num_warps=8
        )
        return y
