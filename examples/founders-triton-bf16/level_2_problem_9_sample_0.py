"""Linear layer, subtraction, multiplication, ReLU: PyTorch's product, then one pass in place.

The pass does what PyTorch does in three, and what it reads is still in the cache.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 4096, "num_warps": 8}


@triton.jit
def finish_kernel(y_ptr, less, factor, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = (x - less) * factor
    x = tl.where(x < 0.0, 0.0, x)
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Linear layer, subtraction, multiplication, ReLU."""

    def __init__(self, in_features: int, out_features: int, subtract_value: float, multiply_value: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.subtract_value = subtract_value
        self.multiply_value = multiply_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.linear.weight, self.linear.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, self.subtract_value, self.multiply_value, y.numel(), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
