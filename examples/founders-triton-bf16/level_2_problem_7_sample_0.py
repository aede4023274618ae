"""Convolution, ReLU, leaky ReLU, GELU, sigmoid, bias, in one kernel after a pass that turns the input around.

The first pass puts the channels of a position side by side: what a tap takes from a position is then one load of
16 bytes. The second makes all output channels of a block of positions, as a product on the tensor cores, several
taps at a time; the taps after the first find their values in the cache, and those of the next product are on
their way during one. It finishes the outputs before they are written. Leaky ReLU after ReLU changes nothing. After
ReLU only half of GELU is needed, and its error function is a short polynomial times an exponential, right to
1.5e-7.

Inputs, weights, outputs and what is multiplied are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 256, "TAPS": 4, "num_warps": 4}


@triton.jit
def turn_kernel(
    x_ptr,
    turned_ptr,
    blocks,
    IN: tl.constexpr,
    INPUTS: tl.constexpr,
    PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """All channels of BLOCK positions of an image, side by side."""
    image = (tl.program_id(0) // blocks).to(tl.int64)
    place = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    channel = tl.arange(0, INPUTS)
    x = tl.load(
        x_ptr + image * (IN * PLACES) + channel[:, None] * PLACES + place[None, :],
        mask=(channel < IN)[:, None] & (place < PLACES)[None, :],
        other=0.0,
    )
    turned_ptr += image * (INPUTS * PLACES)
    tl.store(
        turned_ptr + place[:, None] * INPUTS + channel[None, :], tl.trans(x), mask=(place < PLACES)[:, None]
    )


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    IN: tl.constexpr,
    INPUTS: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [tap, channel, output], zeros behind the last of each."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o, channel, tap = index % OUTPUTS, index // OUTPUTS % INPUTS, index // (OUTPUTS * INPUTS)
    mask = (o < OUT) & (channel < IN) & (tap < 27)
    x = tl.load(weight_ptr + (o * IN + channel) * 27 + tap, mask=mask, other=0.0)
    tl.store(packed_ptr + index, x, mask=index < total)


@triton.jit
def values(
    x_ptr,
    places,
    START: tl.constexpr,
    TAPS: tl.constexpr,
    INPUTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """What TAPS taps from START on take, [position, tap and channel]."""
    k = tl.arange(0, TAPS * INPUTS)
    tap = START + k // INPUTS
    offset = ((tap // 9 * HEIGHT + tap // 3 % 3) * WIDTH + tap % 3) * INPUTS + k % INPUTS
    return tl.load(x_ptr + places[:, None] * INPUTS + offset[None, :], mask=(tap < 27)[None, :], other=0.0)


@triton.jit
def finish(y):
    """ReLU, GELU and sigmoid."""
    y = tl.where(y < 0.0, 0.0, y)
    t = 1.0 / (1.0 + (0.3275911 * 0.7071067811865476) * y)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    y = y - 0.5 * y * tail * tl.exp(-0.5 * y * y)
    return 1.0 / (1.0 + tl.exp(-y))


@triton.jit
def activation_kernel(
    x_ptr,
    packed_ptr,
    conv_bias_ptr,
    bias_ptr,
    y_ptr,
    INPUTS: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
):
    """All channels of BLOCK positions of an image."""
    height: tl.constexpr = HEIGHT - 2
    width: tl.constexpr = WIDTH - 2
    n: tl.constexpr = (DEPTH - 2) * height * width
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    steps: tl.constexpr = (27 + TAPS - 1) // TAPS
    image = (tl.program_id(0) // blocks).to(tl.int64)
    position = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    at = tl.minimum(position, n - 1)
    places = (at // (height * width) * HEIGHT + at // width % height) * WIDTH + at % width
    x_ptr += image * (INPUTS * DEPTH * HEIGHT * WIDTH)
    y_ptr += image * (OUT * n)
    o = tl.arange(0, OUTPUTS)
    k = tl.arange(0, TAPS * INPUTS)
    packed_ptrs = packed_ptr + k[:, None] * OUTPUTS + o[None, :]
    y = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    x = values(x_ptr, places, 0, TAPS, INPUTS, HEIGHT, WIDTH)
    for step in tl.static_range(steps):
        w = tl.load(packed_ptrs + step * (TAPS * INPUTS * OUTPUTS))
        here = x
        if step + 1 < steps:
            x = values(x_ptr, places, (step + 1) * TAPS, TAPS, INPUTS, HEIGHT, WIDTH)
        y = tl.dot(here, w, y)
    y += tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    y = finish(y) + tl.load(bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    there = (position < n)[:, None] & (o < OUT)[None, :]
    tl.store(y_ptr + o[None, :] * n + position[:, None], y.to(y_ptr.dtype.element_ty), mask=there)


class ModelNew(nn.Module):
    """Convolution, chain of four activations, learned bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        if kernel_size != 3 or in_channels > 16 or out_channels > 128:
            raise ValueError("this kernel is written for 3 taps an axis, up to 16 channels in and 128 out")
        if self.bias.numel() != out_channels:
            raise ValueError("this kernel is written for one bias a channel")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, channels, depth, height, width = x.shape
        inputs, outputs = max(8, triton.next_power_of_2(channels)), self.conv.out_channels
        places, padded = depth * height * width, max(16, triton.next_power_of_2(outputs))
        if max(inputs, outputs) * places >= 2**31:
            raise ValueError("this kernel is written for smaller volumes")
        turned = torch.empty((batch, places, inputs), device=x.device, dtype=x.dtype)
        blocks = triton.cdiv(places, 512)
        turn_kernel[(batch * blocks,)](
            x, turned, blocks, IN=channels, INPUTS=inputs, PLACES=places, BLOCK=512, num_warps=4
        )
        taps = triton.cdiv(27, TILE["TAPS"]) * TILE["TAPS"]
        packed = torch.empty(taps * inputs * padded, device=x.device, dtype=x.dtype)
        pack_kernel[(triton.cdiv(packed.numel(), 256),)](
            self.conv.weight.contiguous(),
            packed,
            packed.numel(),
            IN=channels,
            INPUTS=inputs,
            OUT=outputs,
            OUTPUTS=padded,
            BLOCK=256,
            num_warps=4,
        )
        y = torch.empty((batch, outputs, depth - 2, height - 2, width - 2), device=x.device, dtype=x.dtype)
        activation_kernel[(batch * triton.cdiv(y[0, 0].numel(), TILE["BLOCK"]),)](
            turned,
            packed,
            self.conv.bias,
            self.bias,
            y,
            INPUTS=inputs,
            OUT=outputs,
            OUTPUTS=padded,
            DEPTH=depth,
            HEIGHT=height,
            WIDTH=width,
            **TILE,
        )
        return y
