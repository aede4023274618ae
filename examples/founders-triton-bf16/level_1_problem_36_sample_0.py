"""RMS normalisation over the channels of an image, in one read and one write.

A program holds all channels of 128 neighbouring pixels in registers: the mean of squares is a reduction down
the tile, and the division follows without touching memory again. Eager PyTorch makes five passes.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
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
def rms_norm_kernel(x_ptr, y_ptr, pixels, channels, eps, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    blocks = tl.cdiv(pixels, PIXELS)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    columns = (tl.program_id(0) % blocks) * PIXELS + tl.arange(0, PIXELS)
    rows = tl.arange(0, CHANNELS)
    offsets = image * channels * pixels + rows[:, None].to(tl.int64) * pixels + columns[None, :]
    mask = (rows[:, None] < channels) & (columns[None, :] < pixels)
    x = load(x_ptr + offsets, mask=mask, other=0.0)
    rms = tl.sqrt(tl.sum(x * x, axis=0) / channels + eps)
    tl.store(y_ptr + offsets, x / rms[None, :], mask=mask)


class ModelNew(nn.Module):
    """RMS normalisation over dimension 1."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        batch, channels = x.shape[:2]
        pixels = x[0, 0].numel()
        padded = triton.next_power_of_2(channels)
        grid = (batch * triton.cdiv(pixels, 128),)
        rms_norm_kernel[grid](x, y, pixels, channels, self.eps, CHANNELS=padded, PIXELS=128, num_warps=8)
        return y
