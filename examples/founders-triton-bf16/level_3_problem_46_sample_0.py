"""NetVLAD pooling with ghost clusters in four kernels: products with their moments, batch norm, softmax, pooling.

The first kernel reads the descriptors once and leaves the moments of its products, which the second joins. The last
reads the descriptors again, one sample a program: weighted sums, centres and both normalisations happen before its
only store.

Inputs, weights and outputs are bf16, and so are the shares; sums and what is between are fp32.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"ROWS": 64, "DEPTH": 64, "CHUNK": 16, "num_warps": 4}


@triton.jit
def assign_kernel(
    x_ptr,
    clusters_ptr,
    logits_ptr,
    mean_ptr,
    m2_ptr,
    rows,
    WIDTH: tl.constexpr,
    COUNT: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Products of a block of descriptors with all clusters, and mean and sum of squares about it of each column."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, PADDED)
    depth = tl.arange(0, DEPTH)
    inside = row < rows
    x_ptrs = x_ptr + row[:, None] * WIDTH + depth[None, :]
    c_ptrs = clusters_ptr + depth[:, None] * COUNT + column[None, :]
    out = tl.zeros([ROWS, PADDED], tl.float32)
    for start in range(0, WIDTH, DEPTH):
        x = tl.load(x_ptrs, mask=inside[:, None] & (depth[None, :] < WIDTH - start), other=0.0)
        c = tl.load(c_ptrs, mask=(depth[:, None] < WIDTH - start) & (column[None, :] < COUNT), other=0.0)
        out = tl.dot(x, c, out)
        x_ptrs += DEPTH
        c_ptrs += DEPTH * COUNT
    count = tl.minimum(rows - tl.program_id(0) * ROWS, ROWS)
    mean = tl.sum(out, axis=0) / count
    delta = tl.where(inside[:, None], out - mean[None, :], 0.0)
    slots = tl.program_id(0) * COUNT + column
    tl.store(mean_ptr + slots, mean, mask=column < COUNT)
    tl.store(m2_ptr + slots, tl.sum(delta * delta, axis=0), mask=column < COUNT)
    mask = inside[:, None] & (column[None, :] < COUNT)
    tl.store(logits_ptr + row[:, None] * COUNT + column[None, :], out, mask=mask)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    scale_ptr,
    shift_ptr,
    rows,
    eps,
    momentum,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Scale and shift of the batch norm of one column from the moments of all blocks; updates the running ones."""
    column = tl.program_id(0)
    block = tl.arange(0, BLOCKS)
    counts = tl.minimum(tl.maximum(rows - block * ROWS, 0), ROWS).to(tl.float32)
    slots = block * tl.num_programs(0) + column
    means = tl.load(mean_ptr + slots, mask=counts > 0.0, other=0.0)
    m2 = tl.load(m2_ptr + slots, mask=counts > 0.0, other=0.0)
    mean = tl.sum(means * counts, axis=0) / rows
    total = tl.sum(m2 + counts * (means - mean) * (means - mean), axis=0)
    scale = tl.load(weight_ptr + column).to(tl.float32) / tl.sqrt(total / rows + eps)
    tl.store(scale_ptr + column, scale)
    tl.store(shift_ptr + column, tl.load(bias_ptr + column).to(tl.float32) - mean * scale)
    old_mean = tl.load(running_mean_ptr + column).to(tl.float32)
    old_var = tl.load(running_var_ptr + column).to(tl.float32)
    tl.store(running_mean_ptr + column, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + column, old_var + momentum * (total / (rows - 1) - old_var))
    if column == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def share_kernel(
    logits_ptr,
    scale_ptr,
    shift_ptr,
    shares_ptr,
    rows,
    CLUSTERS: tl.constexpr,
    COUNT: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Softmax over the batch-normalised products of each row, of which only the first columns are kept."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, PADDED)
    mask = column < COUNT
    z = tl.load(
        logits_ptr + row[:, None] * COUNT + column[None, :], mask=(row < rows)[:, None] & mask[None, :]
    )
    z = z * tl.load(scale_ptr + column, mask=mask)[None, :] + tl.load(shift_ptr + column, mask=mask)[None, :]
    z = tl.where(mask[None, :], z, float("-inf"))
    share = tl.exp(z - tl.max(z, axis=1)[:, None])
    share = share / tl.sum(share, axis=1)[:, None]
    mask = (row < rows)[:, None] & (column < CLUSTERS)[None, :]
    tl.store(shares_ptr + row[:, None] * CLUSTERS + column[None, :], share, mask=mask)


@triton.jit
def pool_kernel(
    x_ptr,
    shares_ptr,
    centres_ptr,
    out_ptr,
    descriptors,
    WIDTH: tl.constexpr,
    CLUSTERS: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Weighted sums, centres and both normalisations of one sample."""
    sample = tl.program_id(0).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    cluster = tl.arange(0, PADDED)
    position = tl.arange(0, CHUNK)
    x_ptrs = x_ptr + (sample * descriptors + position)[:, None] * WIDTH + feature[None, :]
    share_ptrs = shares_ptr + (sample * descriptors + position)[:, None] * CLUSTERS + cluster[None, :]
    totals = tl.zeros([CHUNK, PADDED], tl.float32)
    sums = tl.zeros([PADDED, BLOCK], tl.float32)
    for start in range(0, descriptors, CHUNK):
        inside = position[:, None] < descriptors - start
        x = tl.load(x_ptrs, mask=inside & (feature[None, :] < WIDTH), other=0.0)
        share = tl.load(share_ptrs, mask=inside & (cluster[None, :] < CLUSTERS), other=0.0)
        totals += share.to(tl.float32)
        sums = tl.dot(tl.trans(share), x, sums)
        x_ptrs += CHUNK * WIDTH
        share_ptrs += CHUNK * CLUSTERS
    mask = (feature[:, None] < WIDTH) & (cluster[None, :] < CLUSTERS)
    offsets = feature[:, None] * CLUSTERS + cluster[None, :]
    total = tl.sum(totals, axis=0)
    vlad = tl.trans(sums) - total[None, :] * tl.load(centres_ptr + offsets, mask=mask, other=0.0).to(
        tl.float32
    )
    length = tl.maximum(tl.sqrt(tl.sum(vlad * vlad, axis=0)), 1e-12)
    vlad = vlad / length[None, :]
    length = tl.maximum(tl.sqrt(tl.sum(tl.sum(vlad * vlad, axis=0), axis=0)), 1e-12)
    tl.store(out_ptr + sample * (WIDTH * CLUSTERS) + offsets, vlad / length, mask=mask)


def assign(x: torch.Tensor, clusters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Products of all descriptors with all clusters, and the blocks' moments of shape (2, blocks, clusters)."""
    width, count = clusters.shape
    rows = x.numel() // width
    blocks = triton.cdiv(rows, TILE["ROWS"])
    logits = torch.empty((rows, count), device=x.device, dtype=torch.float32)
    moments = torch.empty((2, blocks, count), device=x.device, dtype=torch.float32)
    assign_kernel[(blocks,)](
        x,
        clusters,
        logits,
        *moments,
        rows,
        WIDTH=width,
        COUNT=count,
        PADDED=max(16, triton.next_power_of_2(count)),
        ROWS=TILE["ROWS"],
        DEPTH=TILE["DEPTH"],
        num_warps=8,
        num_stages=3,
    )
    return logits, moments


def fold(moments: torch.Tensor, rows: int, norm: nn.BatchNorm1d) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of the batch norm in training mode, one of each a column; updates the running statistics."""
    _, blocks, count = moments.shape
    scale, shift = torch.empty((2, count), device=moments.device, dtype=torch.float32)
    join_kernel[(count,)](
        *moments,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
        scale,
        shift,
        rows,
        norm.eps,
        norm.momentum,
        ROWS=TILE["ROWS"],
        BLOCKS=triton.next_power_of_2(blocks),
        num_warps=8,
    )
    return scale, shift


def share(
    logits: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, clusters: int, dtype: torch.dtype
) -> torch.Tensor:
    """Softmax of the batch-normalised products, of which only the first columns are kept."""
    rows, count = logits.shape
    shares = torch.empty((rows, clusters), device=logits.device, dtype=dtype)
    share_kernel[(triton.cdiv(rows, TILE["ROWS"]),)](
        logits,
        scale,
        shift,
        shares,
        rows,
        CLUSTERS=clusters,
        COUNT=count,
        PADDED=triton.next_power_of_2(count),
        ROWS=TILE["ROWS"],
        num_warps=4,
    )
    return shares


class ModelNew(nn.Module):
    """NetVLAD pooling whose assignment includes discarded ghost clusters."""

    def __init__(self, cluster_size, feature_size, ghost_clusters):
        super().__init__()
        self.feature_size = feature_size
        self.cluster_size = cluster_size
        self.ghost_clusters = ghost_clusters
        scale = 1 / math.sqrt(feature_size)
        all_clusters = cluster_size + ghost_clusters
        self.clusters = nn.Parameter(scale * torch.randn(feature_size, all_clusters))
        self.batch_norm = nn.BatchNorm1d(all_clusters)
        self.clusters2 = nn.Parameter(scale * torch.randn(1, feature_size, cluster_size))
        self.out_dim = cluster_size * feature_size

    def forward(self, x, mask=None):
        x = x.contiguous()
        batch, descriptors, width = x.shape
        logits, moments = assign(x, self.clusters)
        scale, shift = fold(moments, batch * descriptors, self.batch_norm)
        shares = share(logits, scale, shift, self.cluster_size, x.dtype)
        out = torch.empty((batch, self.out_dim), device=x.device, dtype=x.dtype)
        pool_kernel[(batch,)](
            x,
            shares,
            self.clusters2,
            out,
            descriptors,
            WIDTH=width,
            CLUSTERS=self.cluster_size,
            PADDED=max(16, triton.next_power_of_2(self.cluster_size)),
            BLOCK=triton.next_power_of_2(width),
            CHUNK=TILE["CHUNK"],
            num_warps=TILE["num_warps"],
            num_stages=4,
        )
        return out
