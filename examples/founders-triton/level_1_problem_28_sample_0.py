"""Hard sigmoid, min(max(x + 3, 0), 6) / 6, in one pass; the comparisons let NaN through."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def hard_sigmoid_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    shifted = x + 3.0
    shifted = tl.where(shifted < 0.0, 0.0, shifted)
    y = tl.where(shifted > 6.0, 6.0, shifted) * (1.0 / 6.0)
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    """Elementwise hard sigmoid."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        hard_sigmoid_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=8)
        return y
