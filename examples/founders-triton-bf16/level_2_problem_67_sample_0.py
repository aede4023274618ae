"""Convolution, GELU, global mean: cuDNN, then one read.

One program a plane keeps everything between the convolution and the mean in registers.

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
def plane_kernel(
    y_ptr,
    out_ptr,
    conv_bias_ptr,
    channels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    plane = tl.program_id(0)
    y_ptr += plane.to(tl.int64) * HEIGHT * WIDTH
    conv_bias = load(conv_bias_ptr + plane % channels)
    n = (HEIGHT // WINDOW) * (WIDTH // WINDOW)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        outs = start + tl.arange(0, BLOCK)
        mask = outs < n
        x = load(y_ptr + outs, mask=mask, other=0.0) + conv_bias
        result = gelu(x)
        total += tl.where(mask, result, 0.0)
    result = tl.sum(total, axis=0) / n
    tl.store(out_ptr + plane, result)


class ModelNew(nn.Module):
    """Convolution, GELU, global average."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels, *sizes = y.shape
        out = torch.empty((batch, channels), device=y.device, dtype=y.dtype)
        plane_kernel[(batch * channels,)](
            y,
            out,
            conv.bias,
            channels,
            HEIGHT=sizes[0],
            WIDTH=sizes[1],
            WINDOW=1,
            BLOCK=4096,
            num_warps=8,
        )
        return out
