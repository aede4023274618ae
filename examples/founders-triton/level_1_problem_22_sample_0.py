"""Tanh in one pass. Large arguments use exp(-2|x|), which cannot overflow; near zero, where that form
cancels, a polynomial keeps the relative accuracy.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def tanh_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    e = tl.exp(-2.0 * tl.abs(x))
    magnitude = (1.0 - e) / (1.0 + e)
    square = x * x
    near_zero = x * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0))))
    y = tl.where(square < 0.04, near_zero, tl.where(x < 0.0, -magnitude, magnitude))
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    """Elementwise tanh."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        tanh_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=8)
        return y
