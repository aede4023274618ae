"""Leaky ReLU in one pass over the tensor, with 16-byte accesses."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def leaky_relu_kernel(x_ptr, y_ptr, n, slope, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.where(x > 0.0, x, x * slope)
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    """Elementwise leaky ReLU."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        leaky_relu_kernel[(triton.cdiv(n, 4096),)](x, y, n, self.negative_slope, BLOCK=4096, num_warps=8)
        return y
