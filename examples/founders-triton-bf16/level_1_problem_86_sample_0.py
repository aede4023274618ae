"""Depthwise separable convolution in one kernel: the depthwise result never leaves the chip.

A program walks down the rows of a strip of the image, with all channels of it. It reads each value of the strip
once, 16 bytes a load, and gets the shifted rows by renaming registers: only the neighbours of eight columns are
loaded by themselves, from the cache. A row is added to the three output rows that it touches, in fp32. The
finished row of all channels, in bf16, is multiplied by the weights of the 1 x 1 convolution on the tensor
cores, while the next row is on its way.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"ROWS": 32, "BLOCK": 32, "AHEAD": True, "WRITE": "", "num_warps": 8}


@triton.jit
def apart(x):
    """[channels, columns] as eight tensors of every eighth column."""
    even, odd = tl.split(tl.reshape(x.to(tl.float32), [x.shape[0], x.shape[1] // 8, 2, 2, 2]))
    x04, x26 = tl.split(even)
    x15, x37 = tl.split(odd)
    x0, x4 = tl.split(x04)
    x2, x6 = tl.split(x26)
    x1, x5 = tl.split(x15)
    x3, x7 = tl.split(x37)
    return x0, x1, x2, x3, x4, x5, x6, x7


@triton.jit
def together(x0, x1, x2, x3, x4, x5, x6, x7):
    """What apart undoes."""
    even = tl.join(tl.join(x0, x4), tl.join(x2, x6))
    odd = tl.join(tl.join(x1, x5), tl.join(x3, x7))
    return tl.reshape(tl.join(even, odd), [x0.shape[0], x0.shape[1] * 8])


@triton.jit
def shifted(left, x, right):
    """A row moved by one to the right, as it is, and moved by one to the left."""
    x0, x1, x2, x3, x4, x5, x6, x7 = apart(x)
    before = together(apart(left)[7], x0, x1, x2, x3, x4, x5, x6)
    after = together(x1, x2, x3, x4, x5, x6, x7, apart(right)[0])
    return before, x.to(tl.float32), after


@triton.jit
def read(x_ptr, row, channels, columns, IN: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Columns of a row of all channels, zeros outside."""
    inside = (channels < IN) & (row >= 0) & (row < HEIGHT) & (columns >= 0) & (columns < WIDTH)
    return tl.load(x_ptr + channels * (HEIGHT * WIDTH) + row * WIDTH + columns, mask=inside, other=0.0)


@triton.jit
def separable_kernel(
    x_ptr,
    depthwise_ptr,
    pointwise_ptr,
    y_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    AHEAD: tl.constexpr,
    WRITE: tl.constexpr,
):
    """ROWS rows of BLOCK columns, all outputs of them."""
    blocks: tl.constexpr = (WIDTH + BLOCK - 1) // BLOCK
    strips: tl.constexpr = (HEIGHT + ROWS - 1) // ROWS
    image = (tl.program_id(0) // (blocks * strips)).to(tl.int64)
    first = tl.program_id(0) // blocks % strips * ROWS
    start = tl.program_id(0) % blocks * BLOCK
    x_ptr += image * (IN * HEIGHT * WIDTH)
    y_ptr += image * (OUT * HEIGHT * WIDTH)
    channels = tl.arange(0, CHANNELS)
    outputs = tl.arange(0, OUTPUTS)
    pointwise = tl.load(
        pointwise_ptr + outputs[:, None] * IN + channels[None, :],
        mask=(outputs < OUT)[:, None] & (channels < IN)[None, :],
        other=0.0,
    )
    channels = channels[:, None]
    columns = (start + tl.arange(0, BLOCK))[None, :]
    weights = ()
    for tap in tl.static_range(9):
        w = tl.load(depthwise_ptr + channels * 9 + tap, mask=channels < IN, other=0.0)
        weights = weights + (w.to(tl.float32),)
    above = tl.zeros([CHANNELS, BLOCK], tl.float32)
    middle = above
    x = read(x_ptr, first - 1, channels, columns, IN, HEIGHT, WIDTH)
    if AHEAD:
        left = read(x_ptr, first - 1, channels, columns - 8, IN, HEIGHT, WIDTH)
        right = read(x_ptr, first - 1, channels, columns + 8, IN, HEIGHT, WIDTH)
    for i in tl.static_range(2):
        if not AHEAD:
            left = read(x_ptr, first + i - 1, channels, columns - 8, IN, HEIGHT, WIDTH)
            right = read(x_ptr, first + i - 1, channels, columns + 8, IN, HEIGHT, WIDTH)
        before, x, after = shifted(left, x, right)
        above = middle + before * weights[3] + x * weights[4] + after * weights[5]
        middle = before * weights[0] + x * weights[1] + after * weights[2]
        x = read(x_ptr, first + i, channels, columns, IN, HEIGHT, WIDTH)
        if AHEAD:
            left = read(x_ptr, first + i, channels, columns - 8, IN, HEIGHT, WIDTH)
            right = read(x_ptr, first + i, channels, columns + 8, IN, HEIGHT, WIDTH)
    y_ptrs = y_ptr + outputs[:, None] * (HEIGHT * WIDTH) + columns
    there = (outputs < OUT)[:, None] & (columns < WIDTH)
    for i in tl.range(ROWS, num_stages=1):
        if not AHEAD:
            left = read(x_ptr, first + i + 1, channels, columns - 8, IN, HEIGHT, WIDTH)
            right = read(x_ptr, first + i + 1, channels, columns + 8, IN, HEIGHT, WIDTH)
        before, x, after = shifted(left, x, right)
        done = above + before * weights[6] + x * weights[7] + after * weights[8]
        above = middle + before * weights[3] + x * weights[4] + after * weights[5]
        middle = before * weights[0] + x * weights[1] + after * weights[2]
        row = first + i
        x = read(x_ptr, row + 2, channels, columns, IN, HEIGHT, WIDTH)
        if AHEAD:
            left = read(x_ptr, row + 2, channels, columns - 8, IN, HEIGHT, WIDTH)
            right = read(x_ptr, row + 2, channels, columns + 8, IN, HEIGHT, WIDTH)
        y = tl.dot(pointwise, done.to(pointwise.dtype))
        tl.store(
            y_ptrs + row * WIDTH,
            y.to(y_ptr.dtype.element_ty),
            mask=there & (row < HEIGHT),
            eviction_policy=WRITE,
        )


class ModelNew(nn.Module):
    """Depthwise convolution followed by a pointwise one."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(
            in_channels,
            in_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=in_channels,
            bias=bias,
        )
        self.pointwise = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=bias)
        if (kernel_size, stride, padding, dilation, bias) != (3, 1, 1, 1, False):
            raise ValueError(
                "this kernel is written for 3 x 3 taps, stride 1, padding 1, dilation 1 and no bias"
            )
        if in_channels > 128 or out_channels > 256:
            raise ValueError("this kernel is written for up to 128 channels in and 256 out")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, channels, height, width = x.shape
        outputs = self.pointwise.out_channels
        if max(channels, outputs) * height * width >= 2**31:
            raise ValueError("this kernel is written for smaller images")
        y = torch.empty((batch, outputs, height, width), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(height, TILE["ROWS"]) * triton.cdiv(width, TILE["BLOCK"]),)
        separable_kernel[grid](
            x,
            self.depthwise.weight.contiguous(),
            self.pointwise.weight.contiguous(),
            y,
            IN=channels,
            OUT=outputs,
            HEIGHT=height,
            WIDTH=width,
            CHANNELS=max(16, triton.next_power_of_2(channels)),
            OUTPUTS=max(64, triton.next_power_of_2(outputs)),
            **TILE,
        )
        return y
