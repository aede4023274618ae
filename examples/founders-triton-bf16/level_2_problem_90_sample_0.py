"""Convolution, leaky ReLU, sum, clamp, GELU: cuDNN for the convolution, then one pass in place over its result.

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
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def clamp(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@triton.jit
def epilogue_kernel(
    y_ptr, conv_bias_ptr, sum_tensor_ptr, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    blocks = tl.cdiv(PIXELS, BLOCK)
    plane = tl.program_id(0) // blocks
    channel = plane % channels
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    offsets = plane.to(tl.int64) * PIXELS + columns
    sum_tensor = load(sum_tensor_ptr + channel)
    x = load(y_ptr + offsets, mask=columns < PIXELS) + load(conv_bias_ptr + channel)
    x = tl.where(x > 0.0, x, x * 0.2) + sum_tensor
    x = gelu(clamp(x, -1.0, 1.0))
    tl.store(y_ptr + offsets, x, mask=columns < PIXELS)


class ModelNew(nn.Module):
    """Convolution, leaky ReLU, learned sum, clamp, GELU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, sum_tensor_shape: tuple[int, ...]
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.sum_tensor = nn.Parameter(torch.randn(sum_tensor_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv3d(x, conv.weight, None, conv.stride, conv.padding)
        batch, channels = y.shape[:2]
        pixels = y[0, 0].numel()
        grid = (batch * channels * triton.cdiv(pixels, 2048),)
        epilogue_kernel[grid](y, conv.bias, self.sum_tensor, channels, PIXELS=pixels, BLOCK=2048, num_warps=4)
        return y
