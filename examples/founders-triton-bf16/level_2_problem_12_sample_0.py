"""Linear layer, multiplication, leaky ReLU: PyTorch's product, then one pass in place.

The pass does what PyTorch does in two, and what it reads is still in the cache.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 1024, "num_warps": 4}


@triton.jit
def finish_kernel(y_ptr, factor, slope, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = x * factor
    x = tl.where(x < 0.0, x * slope, x)
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Linear layer, scalar multiplication, leaky ReLU."""

    def __init__(self, in_features: int, out_features: int, multiplier: float, negative_slope: float):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.multiplier = multiplier
        self.negative_slope = negative_slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.gemm.weight, self.gemm.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, self.multiplier, self.negative_slope, y.numel(), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
