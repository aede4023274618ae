"""Convolution, instance normalisation, division: cuDNN, then one read and one write.

A program holds a whole plane in registers. A constant added to a plane cancels in its normalisation, so the
convolution's bias is left out.

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
def instance_norm_kernel(y_ptr, eps, divisor, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < PIXELS
    y_ptr += tl.program_id(0).to(tl.int64) * PIXELS
    x = load(y_ptr + columns, mask=mask, other=0.0)
    centered = tl.where(mask, x - tl.sum(x, axis=0) / PIXELS, 0.0)
    variance = tl.sum(centered * centered, axis=0) / PIXELS
    scale = 1.0 / (tl.sqrt(variance + eps) * divisor)
    tl.store(y_ptr + columns, centered * scale, mask=mask)


class ModelNew(nn.Module):
    """Convolution, instance norm, division."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divide_by: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.instance_norm = nn.InstanceNorm2d(out_channels)
        self.divide_by = divide_by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding)
        pixels = y[0, 0].numel()
        block = triton.next_power_of_2(pixels)
        instance_norm_kernel[(y.numel() // pixels,)](
            y, self.instance_norm.eps, self.divide_by, PIXELS=pixels, BLOCK=block, num_warps=16
        )
        return y
