"""Instance normalisation in one pass over memory: each piece is read again while it is still in the L2 cache.

A program has two pieces of planes. It takes the moments of one, its mean and its sum of squares around that
mean, and publishes them. Then it normalises another, LAG pieces back: the moments of all pieces of that plane
are there by then. It waits if not, and only for programs that began before it, so that none waits for ever. The
memory sees one read and one write of each value. Programs take tickets, so that those that began first have the
first pieces, in whatever order they are started.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 4096, "LAG": 1584, "KEEP": "", "num_warps": 4}


@triton.jit
def instance_norm_kernel(
    x_ptr,
    y_ptr,
    mean_ptr,
    m2_ptr,
    done_ptr,
    planes,
    pixels,
    pieces,
    lag,
    eps,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP: tl.constexpr,
):
    """The counters are those of the pieces published, one a plane, and behind them that of the tickets."""
    new = tl.atomic_add(done_ptr + planes, 1, sem="relaxed")
    old = new - lag
    lanes = tl.arange(0, BLOCK)
    plane, column = new // pieces, new % pieces * BLOCK + lanes
    mask = (plane < planes) & (column < pixels)
    x = tl.load(x_ptr + plane.to(tl.int64) * pixels + column, mask=mask, other=0.0, eviction_policy=KEEP)
    old_plane, old_column = tl.maximum(old, 0) // pieces, tl.maximum(old, 0) % pieces * BLOCK + lanes
    offset = old_plane.to(tl.int64) * pixels
    old_mask = (old >= 0) & (old_column < pixels)
    old_x = tl.load(x_ptr + offset + old_column, mask=old_mask, other=0.0, eviction_policy="evict_first")
    while tl.atomic_add(done_ptr + old_plane, 0, sem="acquire") < tl.where(old >= 0, pieces, 0):
        pass
    piece = tl.arange(0, PADDED)
    at = old_plane * PADDED + piece
    count = tl.where(piece < pieces, tl.minimum(pixels - piece * BLOCK, BLOCK), 0).to(tl.float32)
    mean = tl.load(mean_ptr + at, mask=piece < pieces, other=0.0, cache_modifier=".cg")
    m2 = tl.load(m2_ptr + at, mask=piece < pieces, other=0.0, cache_modifier=".cg")
    center = tl.sum(count * mean, axis=0) / pixels
    variance = tl.sum(m2 + count * (mean - center) * (mean - center), axis=0) / pixels
    scale = 1.0 / tl.sqrt(variance + eps)
    if plane < planes:
        values = x.to(tl.float32)
        new_mean = tl.sum(values, axis=0) / tl.minimum(pixels - new % pieces * BLOCK, BLOCK)
        delta = tl.where(mask, values - new_mean, 0.0)
        new_m2 = tl.sum(delta * delta, axis=0)
        tl.store(mean_ptr + plane * PADDED + new % pieces, new_mean)
        tl.store(m2_ptr + plane * PADDED + new % pieces, new_m2)
        tl.debug_barrier()
        tl.atomic_add(done_ptr + plane, 1, sem="release")
    y = (old_x.to(tl.float32) - center) * scale
    tl.store(y_ptr + offset + old_column, y, mask=old_mask, eviction_policy="evict_first")


class ModelNew(nn.Module):
    """Instance normalisation without parameters."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        pixels = x[0, 0].numel()
        planes = x.numel() // pixels
        pieces = triton.cdiv(pixels, TILE["BLOCK"])
        padded = max(triton.next_power_of_2(pieces), 32)
        lag = max(TILE["LAG"], pieces)
        if (planes + 1) * pieces + lag >= 2**31 or planes * padded >= 2**31:
            raise ValueError("this kernel is written for fewer pieces")
        means, m2s = (torch.empty((planes, padded), device=x.device, dtype=torch.float32) for _ in range(2))
        done = torch.zeros(planes + 1, device=x.device, dtype=torch.int32)
        instance_norm_kernel[(planes * pieces + lag,)](
            x,
            y,
            means,
            m2s,
            done,
            planes,
            pixels,
            pieces,
            lag,
            self.inorm.eps,
            PADDED=padded,
            BLOCK=TILE["BLOCK"],
            KEEP=TILE["KEEP"],
            num_warps=TILE["num_warps"],
        )
        return y
