"""Convolution, division, max pooling, global mean, bias, sum over the channels: cuDNN, then one read.

One program a plane keeps everything between the convolution and the mean in registers; a tiny kernel adds
the channels of a sample.

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
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def plane_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    divisor,
    channels,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(0)
    y_ptr += plane.to(tl.int64) * DEPTH * HEIGHT * WIDTH
    conv_bias = load(conv_bias_ptr + plane % channels)
    n = (DEPTH // WINDOW) * (HEIGHT // WINDOW) * (WIDTH // WINDOW)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        outs = start + tl.arange(0, BLOCK)
        mask = outs < n
        z = outs // ((HEIGHT // WINDOW) * (WIDTH // WINDOW))
        row, column = outs // (WIDTH // WINDOW) % (HEIGHT // WINDOW), outs % (WIDTH // WINDOW)
        first = ((z * HEIGHT + row) * WIDTH + column) * WINDOW
        result = tl.full([BLOCK], float("-inf"), tl.float32)
        for i in tl.static_range(WINDOW):
            for j in tl.static_range(WINDOW):
                for k in tl.static_range(WINDOW):
                    x = load(y_ptr + first + (i * HEIGHT + j) * WIDTH + k, mask=mask, other=0.0) + conv_bias
                    x = x / divisor
                    result = nan_maximum(result, x)
        total += tl.where(mask, result, 0.0)
    result = tl.sum(total, axis=0) / n
    tl.store(out_ptr + plane, result)


@triton.jit
def channel_sum_kernel(x_ptr, bias_ptr, out_ptr, channels, CHANNELS: tl.constexpr):
    rows = tl.arange(0, CHANNELS)
    x = load(x_ptr + tl.program_id(0) * channels + rows, mask=rows < channels, other=0.0)
    x += load(bias_ptr + rows, mask=rows < channels, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


class ModelNew(nn.Module):
    """Convolution, division, max pooling, global average, bias, sum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        divisor: float,
        pool_size: tuple[int, int, int],
        bias_shape: tuple[int, ...],
        sum_dim: int,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.divisor = divisor
        self.max_pool = nn.MaxPool3d(pool_size)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.bias = nn.Parameter(torch.randn(bias_shape))
        if tuple(pool_size) != (2, 2, 2) or sum_dim != 1:
            raise ValueError("this kernel is written for windows of 2 x 2 x 2 and a sum over the channels")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv3d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels, *sizes = y.shape
        out = torch.empty((batch, channels), device=y.device, dtype=y.dtype)
        plane_kernel[(batch * channels,)](
            y,
            out,
            conv.bias,
            self.divisor,
            channels,
            DEPTH=sizes[0],
            HEIGHT=sizes[1],
            WIDTH=sizes[2],
            WINDOW=2,
            BLOCK=1024,
            num_warps=4,
        )
        total = torch.empty((batch, 1, 1, 1), device=y.device, dtype=y.dtype)
        channel_sum_kernel[(batch,)](
            out, self.bias, total, channels, CHANNELS=triton.next_power_of_2(channels), num_warps=1
        )
        return total
