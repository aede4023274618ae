"""Instance normalisation, one program a plane: two reads and one write, Welford's update in every lane.

A program has a whole multiprocessor, so that few planes are under way at once; the second pass walks its plane
backwards and finds the part read last still in the L2 cache.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def instance_norm_kernel(x_ptr, y_ptr, n, eps, BLOCK: tl.constexpr):
    plane = tl.program_id(0).to(tl.int64)
    x_ptr += plane * n
    y_ptr += plane * n
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    step = 0.0
    for start in range(0, n, BLOCK):
        mask = start + lanes < n
        x = load(x_ptr + start + lanes, mask=mask, other=0.0)
        step += 1.0
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(mask, 1.0, 0.0)
    center = tl.sum(count * mean, axis=0) / n
    variance = tl.sum(m2 + count * (mean - center) * (mean - center), axis=0) / n
    scale = 1.0 / tl.sqrt(variance + eps)
    n_blocks = tl.cdiv(n, BLOCK)
    for i in range(n_blocks):
        columns = (n_blocks - 1 - i) * BLOCK + lanes
        x = load(x_ptr + columns, mask=columns < n)
        tl.store(y_ptr + columns, (x - center) * scale, mask=columns < n)


class ModelNew(nn.Module):
    """Instance normalisation without parameters."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x[0, 0].numel()
        instance_norm_kernel[(x.numel() // n,)](x, y, n, self.inorm.eps, BLOCK=8192, num_warps=32)
        return y
