"""Linear layer plus its scaled sigmoid: PyTorch's product, then one pass in place.

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
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def finish_kernel(y_ptr, scale, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x += sigmoid(x) * scale
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Linear layer plus its scaled sigmoid."""

    def __init__(self, input_size: int, hidden_size: int, scaling_factor: float):
        super().__init__()
        self.gemm = nn.Linear(input_size, hidden_size)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.gemm.weight, self.gemm.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, self.scaling_factor, y.numel(), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
