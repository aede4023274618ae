"""Transposed convolution, softmax over the channels, sigmoid in one kernel, which writes each output once.

An output of stride 2 takes one or two of three taps along each axis, by whether its place is even or odd. A program
holds the eight inputs that neighbouring outputs need, shifted by 0 or 1 along each axis, and makes from them the eight
kinds of outputs, products on the tensor cores with all channels of a place in the registers of a few threads. The
sigmoid is asked for probabilities alone, between 0 and 1, so a polynomial gives it. Two neighbours along a row are
stored together.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PLACES": 128, "num_warps": 8, "maxnreg": 128}


@triton.jit
def products(
    x_at,
    weight_ptr,
    acc,
    ND: tl.constexpr,
    NH: tl.constexpr,
    KW: tl.constexpr,
    SHIFT: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    """acc and the products of inputs shifted by SHIFT along the row with the taps KW, for one kind of outputs."""
    c = tl.arange(0, INPUTS)[:, None]
    o = tl.arange(0, OUTPUTS)[None, :]
    for i in tl.static_range(ND):
        for j in tl.static_range(NH):
            tap = ((1 if ND == 1 else 2 - 2 * i) * 3 + (1 if NH == 1 else 2 - 2 * j)) * 3 + KW
            w = tl.load(weight_ptr + tap * (IN * OUT) + c * OUT + o, mask=(c < IN) & (o < OUT), other=0.0)
            acc = tl.dot(tl.trans(x_at[(i * 2 + j) * 2 + SHIFT]), w, acc, input_precision="ieee")
    return acc


@triton.jit
def answers(x, there):
    """The sigmoid of the softmax over the last axis."""
    x = tl.where(there, x, float("-inf"))
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    x = x * (1.0 / tl.sum(x, axis=1))[:, None]
    # The hyperbolic tangent of x / 2, at most 0.5, by its series.
    z = 0.25 * x * x
    series = 1.0 + z * (-0.3333333333 + z * (0.1333333333 + z * (-0.0539682540 + z * 0.0218694885)))
    return 0.5 + 0.25 * x * series


@triton.jit
def fused_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    PLACES: tl.constexpr,
):
    """The outputs that begin at PLACES neighbouring places of a plane of the input."""
    blocks: tl.constexpr = (H * W + PLACES - 1) // PLACES
    image = (tl.program_id(0) // (D * blocks)).to(tl.int64)
    d = tl.program_id(0) // blocks % D
    start = tl.program_id(0) % blocks * PLACES
    place = start + tl.arange(0, PLACES)[None, :]
    c = tl.arange(0, INPUTS)[:, None]
    x_ptr += image * (IN * D * H * W) + d * (H * W)
    at = x_ptr + c * (D * H * W) + place
    on = (c < IN) & (place < H * W)
    right = on & (place % W < W - 1)
    down = place < H * W - W
    behind = d < D - 1
    x_at = (
        tl.load(at, mask=on, other=0.0),
        tl.load(at + 1, mask=right, other=0.0),
        tl.load(at + W, mask=on & down, other=0.0),
        tl.load(at + W + 1, mask=right & down, other=0.0),
        tl.load(at + H * W, mask=on & behind, other=0.0),
        tl.load(at + H * W + 1, mask=right & behind, other=0.0),
        tl.load(at + H * W + W, mask=on & down & behind, other=0.0),
        tl.load(at + H * W + W + 1, mask=right & down & behind, other=0.0),
    )
    o = tl.arange(0, OUTPUTS)
    bias = tl.load(bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)
    there = (o < OUT)[None, :]
    across = 2 * start + tl.arange(0, 2 * PLACES)[None, :]
    y_ptr += image * (8 * OUT * D * H * W)
    to = o[:, None] * (8 * D * H * W) + (across // (2 * W) * (4 * W) + across % (2 * W))
    stored = (o < OUT)[:, None] & (across < 2 * H * W)
    for pd in tl.static_range(2):
        for ph in tl.static_range(2):
            even = tl.zeros([PLACES, OUTPUTS], tl.float32) + bias[None, :]
            odd = tl.zeros([PLACES, OUTPUTS], tl.float32) + bias[None, :]
            even = products(x_at, weight_ptr, even, pd + 1, ph + 1, 1, 0, IN, OUT, INPUTS, OUTPUTS)
            odd = products(x_at, weight_ptr, odd, pd + 1, ph + 1, 2, 0, IN, OUT, INPUTS, OUTPUTS)
            odd = products(x_at, weight_ptr, odd, pd + 1, ph + 1, 0, 1, IN, OUT, INPUTS, OUTPUTS)
            even = answers(even, there).to(y_ptr.dtype.element_ty)
            odd = answers(odd, there).to(y_ptr.dtype.element_ty)
            both = tl.reshape(tl.permute(tl.join(even, odd), (1, 0, 2)), (OUTPUTS, 2 * PLACES))
            tl.store(y_ptr + ((2 * d + pd) * (4 * H * W) + ph * (2 * W)) + to, both, mask=stored)


class ModelNew(nn.Module):
    """Transposed convolution, softmax over channels, sigmoid."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        bias: bool = True,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            bias=bias,
        )
        self.softmax = nn.Softmax(dim=1)
        self.sigmoid = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv_transpose, dict(TILE)
        wanted = (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)
        if (conv.kernel_size, conv.stride, conv.padding, conv.output_padding) != wanted or conv.bias is None:
            raise ValueError("this kernel is written for windows of 3 that double each size, and a bias")
        x = x.contiguous()
        batch, inputs, depth, height, width = x.shape
        outputs = conv.out_channels
        weight = conv.weight.permute(2, 3, 4, 0, 1).contiguous()
        y = torch.empty((batch, outputs, 2 * depth, 2 * height, 2 * width), device=x.device, dtype=x.dtype)
        fused_kernel[(batch * depth * triton.cdiv(height * width, tile["PLACES"]),)](
            x,
            weight,
            conv.bias,
            y,
            IN=inputs,
            OUT=outputs,
            INPUTS=max(16, triton.next_power_of_2(inputs)),
            OUTPUTS=max(16, triton.next_power_of_2(outputs)),
            D=depth,
            H=height,
            W=width,
            **tile,
        )
        return y
