"""Linear layer whose scaled output is added to itself: one product, whose sums and bias are scaled.

y * scale + y is (1 + scale) * y. PyTorch's product multiplies its sums by that factor for nothing, before it adds a
bias, which has been multiplied by it as well. So nothing is read or written after the product.

Inputs, weights and outputs are bf16; the product's sums are scaled in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 4096, "num_warps": 8}


@triton.jit
def scale_kernel(bias_ptr, out_ptr, factor, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    x = tl.load(bias_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * factor, mask=inside)


class ModelNew(nn.Module):
    """Linear layer whose scaled output is added to a detached copy of itself."""

    def __init__(self, in_features: int, out_features: int, scaling_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias, factor = self.matmul.weight, self.matmul.bias, 1.0 + self.scaling_factor
        scaled = torch.empty_like(bias)
        block = TILE["BLOCK"]
        scale_kernel[(triton.cdiv(len(bias), block),)](
            bias, scaled, factor, len(bias), BLOCK=block, num_warps=TILE["num_warps"]
        )
        return torch.addmm(scaled, x, weight.t(), alpha=factor)
