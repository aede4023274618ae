"""RMS normalisation over the channels of an image, in one read and one write.

A program holds all channels of a block of neighbouring pixels in registers: the mean of squares is a sum down the
tile, and the scaling follows without touching memory again. It divides once a pixel, not once a value, and
counts the offsets within an image in 32 bits, so that the memory is what takes time.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 128, "LOAD": "evict_first", "STORE": "evict_first", "num_warps": 4}


@triton.jit
def rms_norm_kernel(
    x_ptr,
    y_ptr,
    pixels,
    channels,
    blocks,
    eps,
    EVEN: tl.constexpr,
    CHANNELS: tl.constexpr,
    PIXELS: tl.constexpr,
    LOAD: tl.constexpr,
    STORE: tl.constexpr,
):
    """A program has one block of pixels of an image."""
    image = (tl.program_id(0) // blocks).to(tl.int64) * channels * pixels
    column = tl.program_id(0) % blocks * PIXELS + tl.arange(0, PIXELS)
    channel = tl.arange(0, CHANNELS)
    offsets = channel[:, None] * pixels + column[None, :]
    mask = None if EVEN else (channel < channels)[:, None] & (column < pixels)[None, :]
    x = tl.load(x_ptr + image + offsets, mask=mask, other=None if EVEN else 0.0, eviction_policy=LOAD)
    x = x.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / channels + eps)
    y = (x * scale[None, :]).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + image + offsets, y, mask=mask, eviction_policy=STORE)


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
        if padded > 256 or padded * (pixels + TILE["PIXELS"]) >= 2**31:
            raise ValueError(
                "this kernel is written for images of fewer than 2^31 values and up to 256 channels"
            )
        blocks = triton.cdiv(pixels, TILE["PIXELS"])
        rms_norm_kernel[(batch * blocks,)](
            x,
            y,
            pixels,
            channels,
            blocks,
            self.eps,
            EVEN=padded == channels and pixels % TILE["PIXELS"] == 0,
            CHANNELS=padded,
            **TILE,
        )
        return y
