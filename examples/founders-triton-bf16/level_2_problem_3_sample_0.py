"""Transposed convolution, sum, layer normalisation along the width, average pooling, GELU: one read after cuDNN.

A program normalises the four rows behind each of its pooled rows in registers and adds them before it pools
along the width. A constant added to a row cancels in its normalisation, so the convolution's bias and
sum_weight are left out.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import torch.nn.functional as F
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
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def norm_pool_kernel(
    y_ptr,
    out_ptr,
    weight_ptr,
    bias_ptr,
    n_rows,
    eps,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    height: tl.constexpr = HEIGHT // 2
    depth: tl.constexpr = DEPTH // 2
    plane, z, h = rows // (depth * height), rows // height % depth, rows % height
    columns = tl.arange(0, WIDTH)
    mask = (rows[:, None] < n_rows) & (columns[None, :] < WIDTH)
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            line = (plane.to(tl.int64) * DEPTH + 2 * z + i) * HEIGHT + 2 * h + j
            x = load(y_ptr + line[:, None] * WIDTH + columns[None, :], mask=mask, other=0.0)
            x -= (tl.sum(x, axis=1) / WIDTH)[:, None]
            total += x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps))[:, None]
    weight = load(weight_ptr + columns)
    bias = load(bias_ptr + columns)
    total = total * weight[None, :] + 4.0 * bias[None, :]
    pooled = tl.sum(tl.reshape(total, [ROWS, WIDTH // 2, 2]), axis=2) * 0.125
    halves = tl.arange(0, WIDTH // 2)
    outputs = rows[:, None].to(tl.int64) * (WIDTH // 2) + halves[None, :]
    tl.store(out_ptr + outputs, gelu(pooled), mask=rows[:, None] < n_rows)


class ModelNew(nn.Module):
    """Transposed convolution, scalar sum, layer norm over the width, average pooling, GELU."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int],
        padding: tuple[int, int, int],
        output_padding: tuple[int, int, int],
        sum_weight: float,
        norm_shape: tuple[int, ...],
        pool_kernel_size: tuple[int, int, int],
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.sum_weight = nn.Parameter(torch.tensor(sum_weight))
        self.norm = nn.LayerNorm(norm_shape)
        if tuple(pool_kernel_size) != (2, 2, 2):
            raise ValueError("this kernel is written for pooling windows of 2 x 2 x 2")
        self.avg_pool = nn.AvgPool3d(kernel_size=pool_kernel_size)
        self.gelu = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv_transpose
        y = F.conv_transpose3d(x, conv.weight, None, conv.stride, conv.padding, conv.output_padding)
        batch, channels, depth, height, width = y.shape
        out = torch.empty(
            (batch, channels, depth // 2, height // 2, width // 2), device=y.device, dtype=y.dtype
        )
        n_rows = batch * channels * (depth // 2) * (height // 2)
        norm_pool_kernel[(triton.cdiv(n_rows, 16),)](
            y,
            out,
            self.norm.weight,
            self.norm.bias,
            n_rows,
            self.norm.eps,
            DEPTH=depth,
            HEIGHT=height,
            WIDTH=width,
            ROWS=16,
            num_warps=4,
        )
        return out
