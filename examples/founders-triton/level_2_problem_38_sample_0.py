"""Average pooling, transposed convolution, clamp, softmax over the positions, scale: three passes, none with cuDNN.

The first pools, and writes each mean as the sum of two bf16 numbers. The second convolves on the tensor cores: three
products of high and low parts, that of the low parts left out, are off by some 2^-17, and the softmax turns that into
a relative error. An output of stride 2 takes one or two of three taps along each axis, by whether its place is even
or odd; a program holds the eight shifted inputs of neighbouring outputs and makes all eight kinds of these. The
clamp's upper bound is at least the maximum, so it serves as the shift of the softmax: exponentials are written at
once, and their sums with them. The third pass scales.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"PLACES": 64, "num_warps": 4, "maxnreg": 168}


@triton.jit
def pool_kernel(
    x_ptr,
    high_ptr,
    low_ptr,
    rows,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The high and low parts of the means of windows of 2 x 2 x 2."""
    depth: tl.constexpr = DEPTH // 2
    height: tl.constexpr = HEIGHT // 2
    width: tl.constexpr = WIDTH // 2
    start = tl.program_id(0).to(tl.int64) * BLOCK
    place = 2 * start + tl.arange(0, 2 * BLOCK)
    row, column = place // (2 * width), place % (2 * width)
    plane = row // height
    at = (plane // depth * DEPTH + plane % depth * 2) * HEIGHT + row % height * 2
    at = x_ptr + at * WIDTH + column
    there = row < rows
    x = tl.load(at, mask=there, other=0.0) + tl.load(at + WIDTH, mask=there, other=0.0)
    at += HEIGHT * WIDTH
    x += tl.load(at, mask=there, other=0.0) + tl.load(at + WIDTH, mask=there, other=0.0)
    x = tl.sum(tl.reshape(x, (BLOCK, 2)), axis=1) * 0.125
    to = start + tl.arange(0, BLOCK)
    high = x.to(high_ptr.dtype.element_ty)
    low = (x - high.to(tl.float32)).to(high_ptr.dtype.element_ty)
    tl.store(high_ptr + to, high, mask=to < rows.to(tl.int64) * width)
    tl.store(low_ptr + to, low, mask=to < rows.to(tl.int64) * width)


@triton.jit
def pack_kernel(weight_ptr, high_ptr, low_ptr, total, BLOCK: tl.constexpr):
    """Weights of [input and output, tap] as [tap, input and output], in parts."""
    tap = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(weight_ptr + i * 27 + tap, mask=i < total)
    high = w.to(high_ptr.dtype.element_ty)
    tl.store(high_ptr + tap * total + i, high, mask=i < total)
    low = (w - high.to(tl.float32)).to(high_ptr.dtype.element_ty)
    tl.store(low_ptr + tap * total + i, low, mask=i < total)


@triton.jit
def products(
    highs,
    lows,
    high_ptr,
    low_ptr,
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
    there = (c < IN) & (o < OUT)
    for i in tl.static_range(ND):
        for j in tl.static_range(NH):
            tap = ((1 if ND == 1 else 2 - 2 * i) * 3 + (1 if NH == 1 else 2 - 2 * j)) * 3 + KW
            w_high = tl.load(high_ptr + tap * (IN * OUT) + c * OUT + o, mask=there, other=0.0)
            w_low = tl.load(low_ptr + tap * (IN * OUT) + c * OUT + o, mask=there, other=0.0)
            x_high = tl.trans(highs[(i * 2 + j) * 2 + SHIFT])
            x_low = tl.trans(lows[(i * 2 + j) * 2 + SHIFT])
            acc = tl.dot(x_low, w_high, acc, input_precision="ieee")
            acc = tl.dot(x_high, w_low, acc, input_precision="ieee")
            acc = tl.dot(x_high, w_high, acc, input_precision="ieee")
    return acc


@triton.jit
def shifted(at, place, on, behind, H: tl.constexpr, W: tl.constexpr):
    """The inputs at these places of a plane, and those 1 further along the three axes; 0 where there are none."""
    right = on & (place % W < W - 1)
    down = place < H * W - W
    return (
        tl.load(at, mask=on, other=0.0),
        tl.load(at + 1, mask=right, other=0.0),
        tl.load(at + W, mask=on & down, other=0.0),
        tl.load(at + W + 1, mask=right & down, other=0.0),
        tl.load(at + H * W, mask=on & behind, other=0.0),
        tl.load(at + H * W + 1, mask=right & behind, other=0.0),
        tl.load(at + H * W + W, mask=on & down & behind, other=0.0),
        tl.load(at + H * W + W + 1, mask=right & down & behind, other=0.0),
    )


@triton.jit
def exponentials(x, low, high):
    """What the softmax divides, of the values clamped."""
    x = tl.where(x < low, low, x)
    return tl.exp(tl.where(x > high, high, x) - high)


@triton.jit
def convolve_kernel(
    x_high_ptr,
    x_low_ptr,
    high_ptr,
    low_ptr,
    bias_ptr,
    y_ptr,
    sums_ptr,
    low,
    high,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    PLACES: tl.constexpr,
):
    """The exponentials that begin at PLACES neighbouring places of a plane of what is pooled, and their sums."""
    blocks: tl.constexpr = (H * W + PLACES - 1) // PLACES
    image = (tl.program_id(0) // (D * blocks)).to(tl.int64)
    d = tl.program_id(0) // blocks % D
    start = tl.program_id(0) % blocks * PLACES
    place = start + tl.arange(0, PLACES)[None, :]
    c = tl.arange(0, INPUTS)[:, None]
    at = image * (IN * D * H * W) + d * (H * W) + c * (D * H * W) + place
    on = (c < IN) & (place < H * W)
    highs = shifted(x_high_ptr + at, place, on, d < D - 1, H, W)
    lows = shifted(x_low_ptr + at, place, on, d < D - 1, H, W)
    o = tl.arange(0, OUTPUTS)
    bias = tl.load(bias_ptr + o, mask=o < OUT, other=0.0)
    there = (start + tl.arange(0, PLACES) < H * W)[:, None]
    total = tl.zeros([OUTPUTS], tl.float32)
    across = 2 * start + tl.arange(0, 2 * PLACES)[None, :]
    y_ptr += image * (8 * OUT * D * H * W)
    to = o[:, None] * (8 * D * H * W) + (across // (2 * W) * (4 * W) + across % (2 * W))
    stored = (o < OUT)[:, None] & (across < 2 * H * W)
    for pd in tl.static_range(2):
        for ph in tl.static_range(2):
            even = tl.zeros([PLACES, OUTPUTS], tl.float32)
            odd = tl.zeros([PLACES, OUTPUTS], tl.float32)
            even = products(
                highs, lows, high_ptr, low_ptr, even, pd + 1, ph + 1, 1, 0, IN, OUT, INPUTS, OUTPUTS
            )
            odd = products(
                highs, lows, high_ptr, low_ptr, odd, pd + 1, ph + 1, 2, 0, IN, OUT, INPUTS, OUTPUTS
            )
            odd = products(
                highs, lows, high_ptr, low_ptr, odd, pd + 1, ph + 1, 0, 1, IN, OUT, INPUTS, OUTPUTS
            )
            even = exponentials(even + bias[None, :], low, high)
            odd = exponentials(odd + bias[None, :], low, high)
            total += tl.sum(tl.where(there, even + odd, 0.0), axis=0)
            both = tl.reshape(tl.permute(tl.join(even, odd), (1, 0, 2)), (OUTPUTS, 2 * PLACES))
            tl.store(y_ptr + ((2 * d + pd) * (4 * H * W) + ph * (2 * W)) + to, both, mask=stored)
    tl.store(
        sums_ptr + (image * OUT + o) * (D * blocks) + tl.program_id(0) % (D * blocks), total, mask=o < OUT
    )


@triton.jit
def scale_kernel(
    y_ptr, sums_ptr, scale_ptr, channels, SPACE: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """A part of a plane, divided by the plane's sum and scaled: from the last one to the first, as L2 holds them."""
    blocks: tl.constexpr = (SPACE + BLOCK - 1) // BLOCK
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    plane = program // blocks
    total = tl.zeros([256], tl.float32)
    for start in range(0, PARTS, 256):
        part = start + tl.arange(0, 256)
        total += tl.load(sums_ptr + plane * PARTS + part, mask=part < PARTS, other=0.0)
    factor = tl.load(scale_ptr + plane % channels) / tl.sum(total, axis=0)
    at = program % blocks * BLOCK + tl.arange(0, BLOCK)
    y_ptr += plane.to(tl.int64) * SPACE
    y = tl.load(y_ptr + at, mask=at < SPACE)
    tl.store(y_ptr + at, y * factor, mask=at < SPACE)


class ModelNew(nn.Module):
    """Average pooling, transposed convolution, clamp, softmax over all positions, learned scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        pool_kernel_size: int,
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.scale = nn.Parameter(torch.ones(1, out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv_transpose, dict(TILE)
        wanted = (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)
        if (conv.kernel_size, conv.stride, conv.padding, conv.output_padding) != wanted:
            raise ValueError("this kernel is written for windows of 3 that double each size")
        if self.avg_pool.kernel_size != 2:
            raise ValueError("this kernel is written for means of 2 x 2 x 2")
        x = x.contiguous()
        batch, inputs, *sizes = x.shape
        outputs = conv.out_channels
        depth, height, width = (size // 2 for size in sizes)
        # Without a GPU there are no products of bf16: there the low parts are 0.
        dtype = torch.float32 if x.device.type == "cpu" else torch.bfloat16
        parts = torch.empty((2, batch, inputs, depth, height, width), device=x.device, dtype=dtype)
        weights = torch.empty((2, 27, inputs, outputs), device=x.device, dtype=dtype)
        pool_kernel[(triton.cdiv(parts[0].numel(), 1024),)](
            x,
            *parts,
            batch * inputs * depth * height,
            DEPTH=sizes[0],
            HEIGHT=sizes[1],
            WIDTH=sizes[2],
            BLOCK=1024,
            num_warps=4,
        )
        pack_kernel[(27, triton.cdiv(inputs * outputs, 1024))](
            conv.weight.contiguous(), *weights, inputs * outputs, BLOCK=1024, num_warps=4
        )
        blocks = depth * triton.cdiv(height * width, tile["PLACES"])
        sums = torch.empty((batch, outputs, blocks), device=x.device, dtype=torch.float32)
        space = 8 * depth * height * width
        y = torch.empty((batch, outputs, 2 * depth, 2 * height, 2 * width), device=x.device, dtype=x.dtype)
        convolve_kernel[(batch * blocks,)](
            *parts,
            *weights,
            conv.bias,
            y,
            sums,
            self.clamp_min,
            self.clamp_max,
            IN=inputs,
            OUT=outputs,
            INPUTS=max(16, triton.next_power_of_2(inputs)),
            OUTPUTS=max(16, triton.next_power_of_2(outputs)),
            D=depth,
            H=height,
            W=width,
            **tile,
        )
        scale_kernel[(batch * outputs * triton.cdiv(space, 8192),)](
            y, sums, self.scale, outputs, SPACE=space, PARTS=blocks, BLOCK=8192, num_warps=8
        )
        return y
