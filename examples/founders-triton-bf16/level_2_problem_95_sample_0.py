"""Linear layer, sum, swish, tanh, GELU, hard tanh: PyTorch's product, then one pass in place.

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
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def finish_kernel(y_ptr, extra_ptr, size, features, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(extra_ptr + offsets % features).to(tl.float32)
    x = clamp(gelu(tanh(x * sigmoid(x))), -1.0, 1.0)
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Linear layer, learned sum, swish, tanh, GELU, hardtanh."""

    def __init__(self, in_features: int, out_features: int, add_value_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.matmul.weight, self.matmul.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, self.add_value, y.numel(), y.shape[-1], BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
