"""GELU by the tanh approximation in Gluon, one pass. Judged correct on an H100.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import torch
import triton
from torch import nn
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

BLOCK = 1024


@gluon.jit
def new_gelu_kernel(x, y, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])  # four elements a thread, four warps
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    inside = at < n
    v = gl.load(x + at, mask=inside)
    gl.store(y + at, v / (1.0 + gl.exp(-1.5957691216057308 * (v + 0.044715 * v * v * v))), mask=inside)


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        new_gelu_kernel[(triton.cdiv(n, BLOCK),)](x, y, n, BLOCK=BLOCK, num_warps=4)
        return y
