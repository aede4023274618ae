"""ReLU in one pass: 4096 elements a program, so that each thread keeps four 16-byte loads in flight.

The comparison (rather than a maximum) lets NaN through, as torch.relu does.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.where(x < 0.0, 0.0, x)
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    """Elementwise ReLU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096, num_warps=8)
        return y
