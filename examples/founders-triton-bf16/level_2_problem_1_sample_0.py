"""Convolution, ReLU, bias in one kernel, which reads each input row for one column of the windows once.

A program goes down an image and keeps three rows of outputs in registers: a row of inputs adds to all three, and one of
them is then complete. All weights of its outputs stay in shared memory. The next row of all channels comes ahead of
time, shifted by each of the three columns, as the tensor cores take it: the bulk copy engine brings it, or, if LAST,
a pass before has put channels beside each other. What a product makes lies as the result does, pixels beside each other.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

TILE = {"PIXELS": 64, "CHANNELS": 128, "ROWS": 126, "LAST": True, "num_warps": 8, "num_stages": 3}


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """An image's [C, S] into [S, BLOCK_C], with zeros beyond C."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.arange(0, BLOCK_C)[:, None]
    x = tl.load(x_ptr + image * (C * S) + c * S + s, mask=(s < S) & (c < C), other=0.0)
    tl.store(last_ptr + image * (BLOCK_C * S) + s * BLOCK_C + c, x, mask=s < S)


@triton.jit
def weights_of(weight_ptr, o, TAP: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, INPUTS: tl.constexpr):
    """[output, input] of one tap, from [tap, output, input]."""
    c = tl.arange(0, INPUTS)[None, :]
    there = (o < OUT)[:, None] & (c < IN)
    return tl.load(weight_ptr + TAP * (OUT * IN) + o[:, None] * IN + c, mask=there, other=0.0)


@triton.jit
def inputs_of(
    x,
    image,
    row,
    column,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    INPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    LAST: tl.constexpr,
):
    """[input, pixel] of PIXELS columns from this one, for outputs of HEIGHT x WIDTH."""
    if LAST:
        at = column + tl.arange(0, PIXELS)[:, None]
        c = tl.arange(0, INPUTS)[None, :]
        first = (image.to(tl.int64) * (HEIGHT + 2) + row) * ((WIDTH + 2) * INPUTS)
        return tl.trans(tl.load(x + first + at * INPUTS + c, mask=at < WIDTH + 2, other=0.0))
    else:
        return tl.reshape(x.load([image, row, 0, column]), (INPUTS, PIXELS))


@triton.jit
def row_kernel(
    x,
    weight_ptr,
    conv_bias_ptr,
    bias_ptr,
    y_ptr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    INPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    ROWS: tl.constexpr,
    LAST: tl.constexpr,
    STAGES: tl.constexpr,
):
    """CHANNELS outputs, ROWS rows of PIXELS columns of them, of outputs of HEIGHT x WIDTH."""
    outputs: tl.constexpr = (OUT + CHANNELS - 1) // CHANNELS
    columns: tl.constexpr = (WIDTH + PIXELS - 1) // PIXELS
    parts: tl.constexpr = (HEIGHT + ROWS - 1) // ROWS
    program = tl.program_id(0)
    o = program % outputs * CHANNELS + tl.arange(0, CHANNELS)
    column = program // outputs % columns * PIXELS
    first = program // (outputs * columns) % parts * ROWS
    last = tl.minimum(first + ROWS, HEIGHT)
    image = program // (outputs * columns * parts)
    w00 = weights_of(weight_ptr, o, 0, IN, OUT, INPUTS)
    w01 = weights_of(weight_ptr, o, 1, IN, OUT, INPUTS)
    w02 = weights_of(weight_ptr, o, 2, IN, OUT, INPUTS)
    w10 = weights_of(weight_ptr, o, 3, IN, OUT, INPUTS)
    w11 = weights_of(weight_ptr, o, 4, IN, OUT, INPUTS)
    w12 = weights_of(weight_ptr, o, 5, IN, OUT, INPUTS)
    w20 = weights_of(weight_ptr, o, 6, IN, OUT, INPUTS)
    w21 = weights_of(weight_ptr, o, 7, IN, OUT, INPUTS)
    w22 = weights_of(weight_ptr, o, 8, IN, OUT, INPUTS)
    conv_bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
    bias = tl.load(bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
    pixel = column + tl.arange(0, PIXELS)[None, :]
    there = (o < OUT)[:, None] & (pixel < WIDTH)
    y_ptr += image.to(tl.int64) * (OUT * HEIGHT * WIDTH)
    to = o[:, None] * (HEIGHT * WIDTH) + pixel
    above = tl.zeros([CHANNELS, PIXELS], tl.float32)
    middle = tl.zeros([CHANNELS, PIXELS], tl.float32)
    for row in tl.range(first, last + 2, num_stages=STAGES):
        x0 = inputs_of(x, image, row, column, HEIGHT, WIDTH, INPUTS, PIXELS, LAST)
        x1 = inputs_of(x, image, row, column + 1, HEIGHT, WIDTH, INPUTS, PIXELS, LAST)
        x2 = inputs_of(x, image, row, column + 2, HEIGHT, WIDTH, INPUTS, PIXELS, LAST)
        above = tl.dot(w20, x0, above, input_precision="ieee")
        above = tl.dot(w21, x1, above, input_precision="ieee")
        above = tl.dot(w22, x2, above, input_precision="ieee")
        middle = tl.dot(w10, x0, middle, input_precision="ieee")
        middle = tl.dot(w11, x1, middle, input_precision="ieee")
        middle = tl.dot(w12, x2, middle, input_precision="ieee")
        below = tl.dot(w00, x0, input_precision="ieee")
        below = tl.dot(w01, x1, below, input_precision="ieee")
        below = tl.dot(w02, x2, below, input_precision="ieee")
        y = above + conv_bias
        y = tl.where(y < 0.0, 0.0, y) + bias
        y = y.to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + (row - 2) * WIDTH + to, y, mask=there & (row >= first + 2))
        # Rows change places when their products are done: a sum makes the compiler wait for them here.
        above = middle + 0.0
        middle = below + 0.0


class ModelNew(nn.Module):
    """Convolution, ReLU, learned per-channel bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv, dict(TILE)
        batch, channels, height, width = x.shape
        outputs, inputs = conv.out_channels, max(16, triton.next_power_of_2(channels))
        if conv.kernel_size != (3, 3) or inputs > 64:
            raise ValueError("this kernel is written for windows of 3 x 3 and up to 64 channels")
        if tile["LAST"]:
            source = torch.empty((batch, height, width, inputs), device=x.device, dtype=x.dtype)
            channels_last_kernel[(batch * triton.cdiv(height * width, 64),)](
                x.contiguous(), source, C=channels, S=height * width, BLOCK_S=64, BLOCK_C=inputs, num_warps=4
            )
        else:
            x = x.contiguous() if width % 8 == 0 else F.pad(x, (0, -width % 8))  # Rows of 16 bytes each.
            x = x.clone() if x.data_ptr() % 16 else x
            source = TensorDescriptor(
                x,
                [batch, height, channels, x.shape[3]],
                [x.stride(0), x.stride(2), x.stride(1), 1],
                [1, 1, inputs, tile["PIXELS"]],
            )
        height, width = height - 2, width - 2
        y = torch.empty((batch, outputs, height, width), device=x.device, dtype=x.dtype)
        parts = triton.cdiv(outputs, tile["CHANNELS"]) * triton.cdiv(width, tile["PIXELS"])
        parts *= triton.cdiv(height, tile["ROWS"])
        row_kernel[(batch * parts,)](
            source,
            conv.weight.permute(2, 3, 0, 1).contiguous(),
            conv.bias,
            self.bias,
            y,
            HEIGHT=height,
            WIDTH=width,
            IN=channels,
            OUT=outputs,
            INPUTS=inputs,
            STAGES=tile.pop("num_stages"),
            **tile,
        )
        return y
