"""Linear layer, scale, batch normalisation in training mode: PyTorch's product, a read, and a read and write.

Moments are of blocks of rows, joined by Chan's formula.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"CHUNK": 128, "COLUMNS": 128}


@triton.jit
def column_moments_kernel(
    y_ptr,
    factor_ptr,
    mean_ptr,
    m2_ptr,
    rows,
    features,
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < features
    lanes = tl.arange(0, ROWS)
    count = tl.zeros([ROWS, COLUMNS], tl.float32)
    mean = tl.zeros([ROWS, COLUMNS], tl.float32)
    m2 = tl.zeros([ROWS, COLUMNS], tl.float32)
    factor = tl.load(factor_ptr + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    for start in range(0, CHUNK, ROWS):
        index = tl.program_id(1) * CHUNK + start + lanes
        mask = (index[:, None] < rows) & inside[None, :]
        x = tl.load(
            y_ptr + index.to(tl.int64)[:, None] * features + columns[None, :], mask=mask, other=0.0
        ).to(tl.float32)
        x = x * factor
        count += tl.where(mask, 1.0, 0.0)
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta / tl.maximum(count, 1.0)
        m2 += delta * (x - mean)
    total = tl.sum(count, axis=0)
    center = tl.sum(count * mean, axis=0) / tl.maximum(total, 1.0)
    spread = mean - center[None, :]
    slot = tl.program_id(1) * features + columns
    tl.store(mean_ptr + slot, center, mask=inside)
    tl.store(m2_ptr + slot, tl.sum(m2 + count * spread * spread, axis=0), mask=inside)


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
    features,
    chunks,
    eps,
    momentum,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    column = tl.program_id(0)
    index = tl.arange(0, CHUNKS)
    counts = tl.maximum(tl.minimum(rows - index * CHUNK, CHUNK), 0).to(tl.float32)
    means = tl.load(mean_ptr + index * features + column, mask=index < chunks, other=0.0).to(tl.float32)
    m2 = tl.load(m2_ptr + index * features + column, mask=index < chunks, other=0.0).to(tl.float32)
    mean = tl.sum(means * counts, axis=0) / rows
    total = tl.sum(m2 + (means - mean) * (means - mean) * counts, axis=0)
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
def apply_kernel(y_ptr, factor_ptr, scale_ptr, shift_ptr, features, BLOCK: tl.constexpr):
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < features
    offsets = tl.program_id(0).to(tl.int64) * features + columns
    x = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    scale = tl.load(scale_ptr + columns, mask=mask).to(tl.float32)
    shift = tl.load(shift_ptr + columns, mask=mask).to(tl.float32)
    x = x * tl.load(factor_ptr + columns, mask=mask).to(tl.float32)
    x = x * scale + shift
    tl.store(y_ptr + offsets, x, mask=mask)


class ModelNew(nn.Module):
    """Linear layer, learned scale, batch norm."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        scale_shape: tuple[int, ...],
        eps: float = 1e-05,
        momentum: float = 0.1,
    ):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.scale = nn.Parameter(torch.randn(scale_shape))
        self.bn = nn.BatchNorm1d(out_features, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.gemm.weight, self.gemm.bias)
        rows, features = y.shape
        bn = self.bn
        chunks = triton.cdiv(rows, TILE["CHUNK"])
        moments = torch.empty((2, chunks * features), device=y.device, dtype=torch.float32)
        scale, shift = torch.empty((2, features), device=y.device, dtype=torch.float32)
        column_moments_kernel[(triton.cdiv(features, TILE["COLUMNS"]), chunks)](
            y,
            self.scale,
            *moments,
            rows,
            features,
            CHUNK=TILE["CHUNK"],
            ROWS=16,
            COLUMNS=TILE["COLUMNS"],
            num_warps=4,
        )
        join_kernel[(features,)](
            *moments,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            scale,
            shift,
            rows,
            features,
            chunks,
            bn.eps,
            bn.momentum,
            CHUNK=TILE["CHUNK"],
            CHUNKS=triton.next_power_of_2(chunks),
            num_warps=1,
        )
        apply_kernel[(rows, triton.cdiv(features, 1024))](
            y, self.scale, scale, shift, features, BLOCK=1024, num_warps=4
        )
        return y
