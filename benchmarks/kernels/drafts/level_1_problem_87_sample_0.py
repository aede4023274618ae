"""Pointwise convolution as a product over the channels, by programs that stay.

Each program keeps the weight in shared memory and walks over tiles of pixels, loading the next ones while it computes
and stores one, so that the weight is read once a program; images stay as they lie. TF32, as PyTorch convolves.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_P": 64, "BLOCK_O": 128, "PER_SM": 3, "num_warps": 4, "num_stages": 2}
PROCESSORS = 132


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def pointwise_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    samples,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    PIXELS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    EVEN: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Some output channels of some tiles of pixels."""
    across: tl.constexpr = (PIXELS + BLOCK_P - 1) // BLOCK_P
    o_blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    o = tl.program_id(0) % o_blocks * BLOCK_O + tl.arange(0, BLOCK_O)
    c = tl.arange(0, BLOCK_C)
    w = tl.load(
        weight_ptr + o[:, None] * IN + c[None, :], mask=(o < OUT)[:, None] & (c < IN)[None, :], other=0.0
    )
    w = tl.trans(nearest_tf32(w, ROUND))
    for tile in tl.range(
        tl.program_id(0) // o_blocks, samples * across, tl.num_programs(0) // o_blocks, num_stages=STAGES
    ):
        sample = tile // across
        pixel = tile % across * BLOCK_P + tl.arange(0, BLOCK_P)
        x_ptrs = x_ptr + (sample * IN + c).to(tl.int64)[:, None] * PIXELS + pixel[None, :]
        if EVEN:
            x = tl.load(x_ptrs)
        else:
            x = tl.load(x_ptrs, mask=(c < IN)[:, None] & (pixel < PIXELS)[None, :], other=0.0)
        y = tl.trans(tl.dot(nearest_tf32(tl.trans(x), ROUND), w, input_precision="tf32"))
        if HAS_BIAS:
            y += tl.load(bias_ptr + o, mask=o < OUT, other=0.0)[:, None]
        y_ptrs = y_ptr + (sample * OUT + o).to(tl.int64)[:, None] * PIXELS + pixel[None, :]
        if EVEN:
            tl.store(y_ptrs, y)
        else:
            tl.store(y_ptrs, y, mask=(o < OUT)[:, None] & (pixel < PIXELS)[None, :])


class ModelNew(nn.Module):
    """Pointwise convolution."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = False) -> None:
        super().__init__()
        self.conv1d = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=bias)
        if in_channels > 256:
            raise ValueError("this kernel is written for at most 256 input channels")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        weight, bias = self.conv1d.weight, self.conv1d.bias
        batch, channels, height, width = x.shape
        features, pixels = weight.shape[0], height * width
        if max(channels, features) * pixels >= 2**31:
            raise ValueError("this kernel is written for images of fewer than 2^31 elements")
        tile = dict(TILE)
        per_sm, stages = tile.pop("PER_SM"), tile.pop("num_stages")
        block_o = min(tile.pop("BLOCK_O"), max(16, triton.next_power_of_2(features)))
        block_c = max(16, triton.next_power_of_2(channels))
        o_blocks = triton.cdiv(features, block_o)
        y = torch.empty((batch, features, height, width), device=x.device, dtype=x.dtype)
        programs = min(PROCESSORS * per_sm, batch * triton.cdiv(pixels, tile["BLOCK_P"]))
        pointwise_kernel[(max(1, programs // o_blocks) * o_blocks,)](
            x,
            weight.contiguous(),
            weight if bias is None else bias,
            y,
            batch,
            IN=channels,
            OUT=features,
            PIXELS=pixels,
            HAS_BIAS=bias is not None,
            EVEN=(channels, features % block_o, pixels % tile["BLOCK_P"]) == (block_c, 0, 0),
            ROUND=x.is_cuda,
            BLOCK_O=block_o,
            BLOCK_C=block_c,
            STAGES=stages,
            **tile,
        )
        return y
