"""Convolution, minimum with a constant, bias, scaling with channels last, as cuDNN convolves fastest: one pass lays
the input out so, and one takes the convolution's result back, with its bias and all the rest on the way.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 128, "CHANNELS": 64, "num_warps": 8}


@triton.jit
def channels_last_kernel(
    x_ptr, last_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr
):
    """An image's [C, S] into [S, C]."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    there = (s < S) & (c < C)
    x = tl.load(x_ptr + first + c * S + s, mask=there)
    tl.store(last_ptr + first + s * C + c, x, mask=there)


@triton.jit
def epilogue_kernel(
    last_ptr,
    conv_bias_ptr,
    bias_ptr,
    y_ptr,
    limit,
    factor,
    C: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """What follows the convolution, from [S, C] to [C, S]."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    conv_bias = tl.load(conv_bias_ptr + c, mask=c < C)
    bias = tl.load(bias_ptr + c, mask=c < C)
    x = tl.load(last_ptr + first + s * C + c, mask=there) + conv_bias
    x = (tl.where(x > limit, limit, x) + bias) * factor
    tl.store(y_ptr + first + c * S + s, x, mask=there)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory."""
    batch, channels, height, width = x.shape
    last = torch.empty_like(x, memory_format=torch.channels_last)
    block_c = min(32, triton.next_power_of_2(channels))
    block_s = 2048 // block_c
    grid = (batch * triton.cdiv(height * width, block_s), triton.cdiv(channels, block_c))
    channels_last_kernel[grid](
        x.contiguous(), last, C=channels, S=height * width, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=4
    )
    return last


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
        self.conv.to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv, dict(TILE)
        block_s, block_c = tile.pop("PIXELS"), tile.pop("CHANNELS")
        last = F.conv2d(channels_last(x), conv.weight, None, conv.stride, conv.padding)
        last = last.contiguous(memory_format=torch.channels_last)
        batch, channels, height, width = last.shape
        y = torch.empty((batch, channels, height, width), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(height * width, block_s), triton.cdiv(channels, block_c))
        epilogue_kernel[grid](
            last,
            conv.bias,
            self.bias,
            y,
            self.constant_value,
            self.scaling_factor,
            C=channels,
            S=height * width,
            BLOCK_S=block_s,
            BLOCK_C=block_c,
            **tile,
        )
        return y
