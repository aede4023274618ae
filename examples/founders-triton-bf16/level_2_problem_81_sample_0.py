"""Linear layer, swish, halving, clamp, tanh, clamp: PyTorch's product, then one pass in place.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 1024, "num_warps": 4}


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def finish_kernel(y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = clamp(tanh(clamp(x * sigmoid(x) * 0.5, -1.0, 1.0)), -1.0, 1.0)
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Linear layer, swish, halving, clamp, tanh, clamp."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.gemm.weight, self.gemm.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, y.numel(), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
