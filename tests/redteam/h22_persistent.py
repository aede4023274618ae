"""A persistent kernel that takes its work from a counter."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu(x, y, counter, n, BLOCK: tl.constexpr):
    tile = tl.atomic_add(counter, 1).to(tl.int64)
    while tile * BLOCK < n:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, tl.where(value < 0.0, 0.0, value), mask=at < n)
        tile = tl.atomic_add(counter, 1).to(tl.int64)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        counter = torch.zeros(1, dtype=torch.int32, device=x.device)
        relu[(1056,)](x, y, counter, x.numel(), BLOCK=4096)
        return y
