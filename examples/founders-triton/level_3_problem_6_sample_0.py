"""An Inception block with channels last, as cuDNN convolves fastest.

Its three 1x1 convolutions of the same input are one. That input is pooled while two of their results are set apart
with their biases, and the concatenation is written once, with its biases, channels first again.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 32, "CHANNELS": 64, "num_warps": 4}


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
def pooled(
    x_ptr,
    p,
    c,
    P: tl.constexpr,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
):
    """The greatest around the pixels p, [.., 1], of the result, in channels c, [1, ..]."""
    there = (p < P) & (c < C)
    image = (p // (OUT_HEIGHT * OUT_WIDTH)).to(tl.int64)
    row = p // OUT_WIDTH % OUT_HEIGHT * STRIDE - PADDING
    column = p % OUT_WIDTH * STRIDE - PADDING
    at = x_ptr + ((image * HEIGHT + row) * WIDTH + column) * C + c
    y = tl.full([p.shape[0], c.shape[1]], float("-inf"), tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            inside = (row + i >= 0) & (row + i < HEIGHT) & (column + j >= 0) & (column + j < WIDTH) & there
            x = tl.load(at + (i * WIDTH + j) * C, mask=inside, other=float("-inf"))
            y = tl.maximum(y, x, propagate_nan=tl.PropagateNan.ALL)
    return y


@triton.jit
def prepare_kernel(
    x_ptr,
    first_ptr,
    bias3_ptr,
    bias5_ptr,
    pool_ptr,
    into3_ptr,
    into5_ptr,
    P: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    C: tl.constexpr,
    OUT1: tl.constexpr,
    IN3: tl.constexpr,
    IN5: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Max pooling of a block's input; what goes into the 3x3 and the 5x5 convolution, from the joint 1x1 convolution."""
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    block: tl.constexpr = (C + BLOCK_C - 1) // BLOCK_C
    if tl.program_id(1) < block:
        c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
        y = pooled(x_ptr, p, c, P, C, HEIGHT, WIDTH, HEIGHT, WIDTH, SIZE, STRIDE, PADDING)
        tl.store(pool_ptr + p.to(tl.int64) * C + c, y, mask=(p < P) & (c < C))
    else:
        c = (tl.program_id(1) - block) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
        in3 = c < IN3
        in5 = (c >= IN3) & (c < IN3 + IN5)
        row = p.to(tl.int64)
        x = tl.load(first_ptr + row * (OUT1 + IN3 + IN5) + OUT1 + c, mask=(p < P) & (in3 | in5))
        bias3 = tl.load(bias3_ptr + c, mask=in3)
        bias5 = tl.load(bias5_ptr + c - IN3, mask=in5)
        tl.store(into3_ptr + row * IN3 + c, x + bias3, mask=(p < P) & in3)
        tl.store(into5_ptr + row * IN5 + c - IN3, x + bias5, mask=(p < P) & in5)


@triton.jit
def join_kernel(
    x1_ptr,
    x3_ptr,
    x5_ptr,
    pool_ptr,
    bias1_ptr,
    bias3_ptr,
    bias5_ptr,
    bias_pool_ptr,
    y_ptr,
    P: tl.constexpr,
    S: tl.constexpr,
    ROW1: tl.constexpr,
    OUT1: tl.constexpr,
    OUT3: tl.constexpr,
    OUT5: tl.constexpr,
    OUT_POOL: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Four convolutions' results and their biases as [C, S] of each image; the first's rows are ROW1 apart."""
    START5: tl.constexpr = OUT1 + OUT3
    START_POOL: tl.constexpr = START5 + OUT5
    C: tl.constexpr = START_POOL + OUT_POOL
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    row = p.to(tl.int64)
    in1 = c < OUT1
    in3 = (c >= OUT1) & (c < START5)
    in5 = (c >= START5) & (c < START_POOL)
    in_pool = (c >= START_POOL) & (c < C)
    y = tl.load(x1_ptr + row * ROW1 + c, mask=(p < P) & in1, other=0.0)
    y += tl.load(x3_ptr + row * OUT3 + c - OUT1, mask=(p < P) & in3, other=0.0)
    y += tl.load(x5_ptr + row * OUT5 + c - START5, mask=(p < P) & in5, other=0.0)
    y += tl.load(pool_ptr + row * OUT_POOL + c - START_POOL, mask=(p < P) & in_pool, other=0.0)
    bias = tl.load(bias1_ptr + c, mask=in1, other=0.0)
    bias += tl.load(bias3_ptr + c - OUT1, mask=in3, other=0.0)
    bias += tl.load(bias5_ptr + c - START5, mask=in5, other=0.0)
    bias += tl.load(bias_pool_ptr + c - START_POOL, mask=in_pool, other=0.0)
    first = y_ptr + row // S * (C * S) + row % S
    tl.store(first + c * S, y + bias, mask=(p < P) & (c < C))


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory."""
    batch, channels, height, width = x.shape
    last = torch.empty_like(x, memory_format=torch.channels_last)
    block_c = min(32, triton.next_power_of_2(channels))
    grid = (batch * triton.cdiv(height * width, 256), triton.cdiv(channels, block_c))
    channels_last_kernel[grid](
        x.contiguous(), last, C=channels, S=height * width, BLOCK_S=256, BLOCK_C=block_c, num_warps=4
    )
    return last


def empty_last(like: torch.Tensor, channels: int, height: int, width: int) -> torch.Tensor:
    """A tensor with channels last."""
    shape = (like.shape[0], channels, height, width)
    return torch.empty(shape, device=like.device, dtype=like.dtype, memory_format=torch.channels_last)


def convolve(x: torch.Tensor, conv: nn.Conv2d, weight: torch.Tensor | None = None) -> torch.Tensor:
    """A convolution without its bias, from channels last to channels last."""
    y = F.conv2d(x, conv.weight if weight is None else weight, None, conv.stride, conv.padding)
    return y.contiguous(memory_format=torch.channels_last)


class ModelNew(nn.Module):
    """An Inception block of four parallel branches joined along the channels."""

    def __init__(self, in_channels, out_1x1, reduce_3x3, out_3x3, reduce_5x5, out_5x5, pool_proj):
        super().__init__()
        self.branch1x1 = nn.Conv2d(in_channels, out_1x1, kernel_size=1)
        self.branch3x3 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_3x3, kernel_size=1),
            nn.Conv2d(reduce_3x3, out_3x3, kernel_size=3, padding=1),
        )
        self.branch5x5 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_5x5, kernel_size=1),
            nn.Conv2d(reduce_5x5, out_5x5, kernel_size=5, padding=2),
        )
        self.branch_pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(in_channels, pool_proj, kernel_size=1),
        )
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        conv1, (reduce3, conv3), (reduce5, conv5) = self.branch1x1, self.branch3x3, self.branch5x5
        pool, project = self.branch_pool
        x = channels_last(x)
        batch, channels, height, width = x.shape
        pixels, block_p, block_c = batch * height * width, TILE["PIXELS"], TILE["CHANNELS"]
        out1, in3, in5 = conv1.out_channels, reduce3.out_channels, reduce5.out_channels
        first = convolve(x, conv1, torch.cat((conv1.weight, reduce3.weight, reduce5.weight)))
        around = empty_last(x, channels, height, width)
        into3 = empty_last(x, in3, height, width)
        into5 = empty_last(x, in5, height, width)
        blocks = triton.cdiv(channels, block_c) + triton.cdiv(in3 + in5, block_c)
        prepare_kernel[(triton.cdiv(pixels, block_p), blocks)](
            x,
            first,
            reduce3.bias,
            reduce5.bias,
            around,
            into3,
            into5,
            P=pixels,
            HEIGHT=height,
            WIDTH=width,
            C=channels,
            OUT1=out1,
            IN3=in3,
            IN5=in5,
            SIZE=pool.kernel_size,
            STRIDE=pool.stride,
            PADDING=pool.padding,
            BLOCK_P=block_p,
            BLOCK_C=block_c,
            num_warps=TILE["num_warps"],
        )
        out3, out5, out_pool = conv3.out_channels, conv5.out_channels, project.out_channels
        outs = out1 + out3 + out5 + out_pool
        y = torch.empty((batch, outs, height, width), device=x.device, dtype=x.dtype)
        join_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(outs, block_c))](
            first,
            convolve(into3, conv3),
            convolve(into5, conv5),
            convolve(around, project),
            conv1.bias,
            conv3.bias,
            conv5.bias,
            project.bias,
            y,
            P=pixels,
            S=height * width,
            ROW1=out1 + in3 + in5,
            OUT1=out1,
            OUT3=out3,
            OUT5=out5,
            OUT_POOL=out_pool,
            BLOCK_P=block_p,
            BLOCK_C=block_c,
            num_warps=TILE["num_warps"],
        )
        return y
