"""Convolution, minimum with a constant, bias, scaling: cuDNN for the convolution, then one pass in place over its result.

The convolution's bias, which eager PyTorch adds in a pass of its own, is part of that pass.

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
def epilogue_kernel(
    y_ptr, conv_bias_ptr, bias_ptr, limit, factor, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    blocks = tl.cdiv(PIXELS, BLOCK)
    plane = tl.program_id(0) // blocks
    channel = plane % channels
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    offsets = plane.to(tl.int64) * PIXELS + columns
    bias = load(bias_ptr + channel)
    x = load(y_ptr + offsets, mask=columns < PIXELS) + load(conv_bias_ptr + channel)
    x = (tl.where(x > limit, limit, x) + bias) * factor
    tl.store(y_ptr + offsets, x, mask=columns < PIXELS)


class ModelNew(nn.Module):
    """Convolution, minimum with a constant, bias, scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        constant_value: float,
        bias_shape: tuple[int, ...],
        scaling_factor: float,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.constant_value = constant_value
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels = y.shape[:2]
        pixels = y[0, 0].numel()
        grid = (batch * channels * triton.cdiv(pixels, 2048),)
        epilogue_kernel[grid](
            y,
            conv.bias,
            self.bias,
            self.constant_value,
            self.scaling_factor,
            channels,
            PIXELS=pixels,
            BLOCK=2048,
            num_warps=4,
        )
        return y
