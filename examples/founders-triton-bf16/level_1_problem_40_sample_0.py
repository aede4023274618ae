"""Layer normalisation of a few very long rows, split over the whole device.

Eager PyTorch gives one block to each of the 16 rows and leaves most of the device idle. Here 128 programs a
row first take partial means and squared deviations (Welford's update in every lane, so that a large mean costs
no digits); the second kernel joins the partials of its row by Chan's formula and normalises its chunk.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

SPLITS = 128
BLOCK = 2048


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def partial_moments_kernel(x_ptr, count_ptr, mean_ptr, m2_ptr, n, chunk, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    begin = tl.program_id(0) * chunk
    end = tl.minimum(begin + chunk, n)
    lanes = tl.arange(0, BLOCK)
    count = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    m2 = tl.zeros([BLOCK], tl.float32)
    for start in range(begin, end, BLOCK):
        mask = start + lanes < end
        x = load(x_ptr + row * n + start + lanes, mask=mask, other=0.0)
        count += tl.where(mask, 1.0, 0.0)
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta / tl.maximum(count, 1.0)
        m2 += delta * (x - mean)
    total = tl.sum(count, axis=0)
    center = tl.sum(count * mean, axis=0) / tl.maximum(total, 1.0)
    spread = tl.sum(m2 + count * (mean - center) * (mean - center), axis=0)
    slot = row * tl.num_programs(0) + tl.program_id(0)
    tl.store(count_ptr + slot, total)
    tl.store(mean_ptr + slot, center)
    tl.store(m2_ptr + slot, spread)


@triton.jit
def normalise_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    count_ptr,
    mean_ptr,
    m2_ptr,
    n,
    eps,
    SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(1).to(tl.int64)
    slots = row * SPLITS + tl.arange(0, SPLITS)
    counts = load(count_ptr + slots)
    means = load(mean_ptr + slots)
    mean = tl.sum(counts * means, axis=0) / n
    variance = tl.sum(load(m2_ptr + slots) + counts * (means - mean) * (means - mean), axis=0) / n
    scale = 1.0 / tl.sqrt(variance + eps)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n
    x = load(x_ptr + row * n + columns, mask=mask)
    weight = load(weight_ptr + columns, mask=mask)
    bias = load(bias_ptr + columns, mask=mask)
    tl.store(y_ptr + row * n + columns, (x - mean) * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    """Layer normalisation over all dimensions but the batch."""

    def __init__(self, normalized_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        n = self.ln.weight.numel()
        rows = x.numel() // n
        chunk = triton.cdiv(triton.cdiv(n, SPLITS), BLOCK) * BLOCK
        moments = torch.empty((3, rows * SPLITS), device=x.device, dtype=torch.float32)
        partial_moments_kernel[(SPLITS, rows)](x, *moments, n, chunk, BLOCK=BLOCK, num_warps=8)
        normalise_kernel[(triton.cdiv(n, BLOCK), rows)](
            x,
            y,
            self.ln.weight,
            self.ln.bias,
            *moments,
            n,
            self.ln.eps,
            SPLITS=SPLITS,
            BLOCK=BLOCK,
            num_warps=8,
        )
        return y
