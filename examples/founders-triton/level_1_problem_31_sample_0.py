"""ELU in one pass; a polynomial stands in for exp(x) - 1 near zero, where the difference loses digits."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def elu_kernel(x_ptr, y_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    low = tl.where(x < 0.0, x, 0.0)
    near_zero = low * (1.0 + low * (0.5 + low * (1.0 / 6.0 + low * (1.0 / 24.0))))
    growth = tl.where(low > -0.05, near_zero, tl.exp(low) - 1.0)
    y = tl.where(x > 0.0, x, tl.where(x <= 0.0, alpha * growth, x))
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(nn.Module):
    """Elementwise ELU."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        elu_kernel[(triton.cdiv(n, 4096),)](x, y, n, self.alpha, BLOCK=4096, num_warps=8)
        return y
