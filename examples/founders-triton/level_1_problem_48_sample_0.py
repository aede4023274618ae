"""Mean over a middle dimension: a program walks down 1024 neighbouring columns, 8 rows at a time.

Loads are coalesced along the kept dimension, and each thread has 32 of them in flight; the 8 partial rows are
added up at the end.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mean_kernel(x_ptr, y_ptr, length, inner, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    blocks = tl.cdiv(inner, COLUMNS)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    columns = (tl.program_id(0) % blocks) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    x_ptr += outer * length * inner
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, length, ROWS):
        index = start + rows
        mask = (index[:, None] < length) & (columns[None, :] < inner)
        total += tl.load(x_ptr + index[:, None] * inner + columns[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + outer * inner + columns, tl.sum(total, axis=0) / length, mask=columns < inner)


class ModelNew(nn.Module):
    """Mean over one dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        shape = list(x.shape)
        length = shape.pop(self.dim)
        inner = x.stride(self.dim)
        y = torch.empty(shape, device=x.device, dtype=x.dtype)
        grid = (y.numel() // inner * triton.cdiv(inner, 1024),)
        mean_kernel[grid](x, y, length, inner, ROWS=8, COLUMNS=1024, num_warps=8)
        return y
