"""Transposed convolution, leaky ReLU, multiplier, leaky ReLU, max pooling: cuDNN for the convolution, one pass for the rest.

One lane makes one pooled output from its window; what lies between convolution and pooling happens in registers.

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
def leaky(x, slope):
    return tl.where(x > 0.0, x, x * slope)


@triton.jit
def pool_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    multiplier_ptr,
    slope,
    channels,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(1)
    channel = plane % channels
    rows: tl.constexpr = HEIGHT // WINDOW
    width: tl.constexpr = WIDTH // WINDOW
    outs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z, row, column = outs // (rows * width), outs // width % rows, outs % width
    mask = outs < (DEPTH // WINDOW) * rows * width
    first = plane.to(tl.int64) * DEPTH * HEIGHT * WIDTH + ((z * HEIGHT + row) * WIDTH + column) * WINDOW
    conv_bias = load(conv_bias_ptr + channel)
    multiplier = load(multiplier_ptr + channel)
    result = tl.full([BLOCK], float("-inf"), tl.float32)
    for i in tl.static_range(WINDOW):
        for j in tl.static_range(WINDOW):
            for k in tl.static_range(WINDOW):
                x = load(y_ptr + first + (i * HEIGHT + j) * WIDTH + k, mask=mask, other=0.0) + conv_bias
                x = leaky(leaky(x, slope) * multiplier, slope)
                result = nan_maximum(result, x)
    tl.store(out_ptr + plane.to(tl.int64) * (DEPTH // WINDOW) * rows * width + outs, result, mask=mask)


class ModelNew(nn.Module):
    """Transposed convolution, leaky ReLU, learned multiplier, leaky ReLU, max pooling."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        multiplier_shape: tuple[int, ...],
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
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.leaky_relu = nn.LeakyReLU(negative_slope=0.2)
        self.max_pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv_transpose
        y = F.conv_transpose3d(x, conv.weight, None, conv.stride, conv.padding, conv.output_padding)
        batch, channels, *sizes = y.shape
        window = self.max_pool.kernel_size
        out = torch.empty(
            (batch, channels, *(size // window for size in sizes)), device=y.device, dtype=y.dtype
        )
        grid = (triton.cdiv(out[0, 0].numel(), 512), batch * channels)
        pool_kernel[grid](
            y,
            out,
            conv.bias,
            self.multiplier,
            self.leaky_relu.negative_slope,
            channels,
            DEPTH=sizes[0],
            HEIGHT=sizes[1],
            WIDTH=sizes[2],
            WINDOW=window,
            BLOCK=512,
            num_warps=4,
        )
        return out
