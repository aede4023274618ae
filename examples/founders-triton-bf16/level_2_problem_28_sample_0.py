"""Linear layer, instance normalisation of each row, sum and product with a second input: PyTorch's product,
then one pass in place.

A program holds a row in registers: one read of both and one write for all that follows the product.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"num_warps": 4}


@triton.jit
def row_kernel(x_ptr, y_ptr, eps, features, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < features
    offsets = tl.program_id(0).to(tl.int64) * features + columns
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(inside, x - tl.sum(x, axis=0) / features, 0.0)
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=0) / features + eps))
    tl.store(x_ptr + offsets, (x + y) * y, mask=inside)


class ModelNew(nn.Module):
    """Linear layer, normalisation of every row, sum and product with a second input."""

    def __init__(self, in_features: int, out_features: int, eps: float = 1e-05, momentum: float = 0.1):
        super().__init__()
        self.bmm = nn.Linear(in_features, out_features)
        self.instance_norm = nn.InstanceNorm2d(out_features, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = F.linear(x, self.bmm.weight, self.bmm.bias)
        rows, features = out.shape
        row_kernel[(rows,)](
            out,
            y.contiguous(),
            self.instance_norm.eps,
            features,
            BLOCK=triton.next_power_of_2(features),
            **TILE,
        )
        return out
