"""Linear layer with a separate bias, ReLU: PyTorch's product, then one pass in place.

The product adds the bias to its sums, so that the pass has the ReLU alone to do.
It reads what is still in the cache.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 4096, "num_warps": 8}


@triton.jit
def finish_kernel(y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(x < 0.0, 0.0, x)
    tl.store(y_ptr + offsets, x, mask=inside)


class ModelNew(nn.Module):
    """Matrix product, separate bias parameter, ReLU."""

    def __init__(self, in_features: int, out_features: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.gemm.weight, self.bias)
        block = TILE["BLOCK"]
        finish_kernel[(triton.cdiv(y.numel(), block),)](
            y, y.numel(), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return y
