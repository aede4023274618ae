"""Convolution, max pooling, logsumexp over the channels, ReLU: cuDNN, then one read.

One lane makes one output: it walks through the channels, takes the maximum of each window and keeps a running
maximum and a rescaled sum of exponentials.

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
def pool_logsumexp_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    channels,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(1).to(tl.int64)
    rows: tl.constexpr = HEIGHT // 2
    width: tl.constexpr = WIDTH // 2
    outs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z, row, column = outs // (rows * width), outs // width % rows, outs % width
    n = (DEPTH // 2) * rows * width
    mask = outs < n
    first = ((z * HEIGHT + row) * WIDTH + column) * 2
    peak = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for channel in range(channels):
        plane_ptr = y_ptr + (image * channels + channel) * DEPTH * HEIGHT * WIDTH
        best = tl.full([BLOCK], float("-inf"), tl.float32)
        for i in tl.static_range(2):
            for j in tl.static_range(2):
                for k in tl.static_range(2):
                    x = load(plane_ptr + first + (i * HEIGHT + j) * WIDTH + k, mask=mask, other=0.0)
                    best = nan_maximum(best, x)
        best += load(conv_bias_ptr + channel)
        new_peak = tl.maximum(peak, best)
        total = total * tl.exp(peak - new_peak) + tl.exp(best - new_peak)
        peak = new_peak
    result = tl.log(total) + peak
    tl.store(out_ptr + image * n + outs, tl.where(result < 0.0, 0.0, result), mask=mask)


class ModelNew(nn.Module):
    """Convolution, max pooling, log-sum-exp over channels, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.max_pool = nn.MaxPool3d(kernel_size=2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv3d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels, depth, height, width = y.shape
        out = torch.empty((batch, 1, depth // 2, height // 2, width // 2), device=y.device, dtype=y.dtype)
        pool_logsumexp_kernel[(triton.cdiv(out[0].numel(), 128), batch)](
            y, out, conv.bias, channels, DEPTH=depth, HEIGHT=height, WIDTH=width, BLOCK=128, num_warps=4
        )
        return out
