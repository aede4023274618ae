"""Transposed convolution, mean over the depth, bias, softmax over the channels, tanh, scaling, with the mean moved
before the convolution.

With a stride of one, a tap of the kernel's depth meets all slices of the input but those that the padding cuts off, so
the mean over the depth of the result is a 2-D transposed convolution of sums over the depth of the input, one
for each tap: an exact identity. One pass makes these sums with channels last, and the convolution and what follows
work on a single slice.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"CUDNN": False, "SUMS": 256, "PIXELS": 128, "BLOCK_C": 16, "num_warps": 4, "num_stages": 5}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KD: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights of a 2-D convolution as [output, tap, depth's tap, input]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c, k = index % IN, index // IN % KD
    tap, o = index // (IN * KD) % TAPS, index // (IN * KD * TAPS)
    source = ((c * OUT + o) * KD + k) * TAPS + TAPS - 1 - tap
    there = index < TAPS * KD * IN * OUT
    tl.store(packed_ptr + index, nearest_tf32(tl.load(weight_ptr + source, mask=there), ROUND), mask=there)


@triton.jit
def depth_kernel(
    x_ptr,
    sums_ptr,
    IN: tl.constexpr,
    DEPTH: tl.constexpr,
    PIXELS: tl.constexpr,
    KD: tl.constexpr,
    PAD: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """[IN, DEPTH, PIXELS] into sums over the depth for each tap, divided by the result's depth, [PIXELS, KD, IN]."""
    blocks: tl.constexpr = (PIXELS + BLOCK - 1) // BLOCK
    out_depth: tl.constexpr = DEPTH + KD - 1 - 2 * PAD
    image = (tl.program_id(0) // blocks).to(tl.int64)
    pixel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    there = (c < IN) & (pixel < PIXELS)
    x_ptr += (image * IN + c) * (DEPTH * PIXELS) + pixel
    sums_ptr += (image * PIXELS + pixel) * (KD * IN) + c
    inner = tl.zeros([BLOCK_C, BLOCK], tl.float32)
    for z in range(PAD, DEPTH - PAD):
        inner += tl.load(x_ptr + z * PIXELS, mask=there, other=0.0)
    for k in tl.static_range(KD):
        total = inner
        for z in tl.static_range(PAD):
            if z >= PAD - k:
                total += tl.load(x_ptr + z * PIXELS, mask=there, other=0.0)
            if DEPTH - 1 - z < out_depth + PAD - k:
                total += tl.load(x_ptr + (DEPTH - 1 - z) * PIXELS, mask=there, other=0.0)
        tl.store(sums_ptr + k * IN, nearest_tf32(total / out_depth, ROUND), mask=there)


@triton.jit
def finish(x, conv_bias_ptr, bias_ptr, factor, o, OUT: tl.constexpr):
    """What follows the mean, for rows of all channels."""
    bias = tl.load(conv_bias_ptr + o, mask=o < OUT, other=0.0)
    bias += tl.load(bias_ptr + o, mask=o < OUT, other=0.0)
    x = tl.where((o < OUT)[None, :], x + bias[None, :], float("-inf"))
    x = tl.exp(x - tl.max(x, axis=1)[:, None])
    return tanh(x / tl.sum(x, axis=1)[:, None]) * factor


@triton.jit
def conv_kernel(
    sums_ptr,
    packed_ptr,
    conv_bias_ptr,
    bias_ptr,
    y_ptr,
    factor,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The 2-D convolution for BLOCK pixels and all channels, and what follows."""
    blocks: tl.constexpr = (OH * OW + BLOCK - 1) // BLOCK
    c_blocks: tl.constexpr = (IN + BLOCK_C - 1) // BLOCK_C
    image = (tl.program_id(0) // blocks).to(tl.int64)
    pixel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row, column = pixel // OW - PH, pixel % OW - PW
    c = tl.arange(0, BLOCK_C)
    o = tl.arange(0, OUTPUTS)
    x_ptrs = sums_ptr + image * (HEIGHT * WIDTH * IN) + (row * WIDTH + column)[:, None] * IN + c[None, :]
    w_ptrs = packed_ptr + o[:, None] * (KH * KW * IN) + c[None, :]
    acc = tl.zeros([BLOCK, OUTPUTS], tl.float32)
    for t in range(KH * KW * c_blocks):
        tap, start = t // c_blocks, t % c_blocks * BLOCK_C
        i, j = tap // KW, tap % KW
        inside = (row + i >= 0) & (row + i < HEIGHT) & (column + j >= 0) & (column + j < WIDTH)
        mask = inside[:, None] & (c < IN - start)[None, :]
        x = tl.load(x_ptrs + ((i * WIDTH + j) * IN + start), mask=mask, other=0.0)
        mask = (o < OUT)[:, None] & (c < IN - start)[None, :]
        w = tl.load(w_ptrs + (tap * IN + start), mask=mask, other=0.0)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="tf32")
    y = finish(acc, conv_bias_ptr, bias_ptr, factor, o, OUT)
    offsets = o[None, :] * (OH * OW) + pixel[:, None]
    mask = (pixel < OH * OW)[:, None] & (o < OUT)[None, :]
    tl.store(y_ptr + image * (OUT * OH * OW) + offsets, y, mask=mask)


@triton.jit
def epilogue_kernel(
    last_ptr,
    conv_bias_ptr,
    bias_ptr,
    y_ptr,
    factor,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What follows the convolution, from [PIXELS, OUT] to [OUT, PIXELS]."""
    blocks: tl.constexpr = (PIXELS + BLOCK - 1) // BLOCK
    first = (tl.program_id(0) // blocks).to(tl.int64) * OUT * PIXELS
    pixel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    o = tl.arange(0, OUTPUTS)
    mask = (pixel < PIXELS)[:, None] & (o < OUT)[None, :]
    x = tl.load(last_ptr + first + pixel[:, None] * OUT + o[None, :], mask=mask, other=0.0)
    y = finish(x, conv_bias_ptr, bias_ptr, factor, o, OUT)
    tl.store(y_ptr + first + o[None, :] * PIXELS + pixel[:, None], y, mask=mask)


class ModelNew(nn.Module):
    """Transposed convolution, mean over depth, bias, softmax over channels, tanh, scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        scaling_factor: float,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.bias = nn.Parameter(torch.randn(1, out_channels, 1, 1, 1))
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv_transpose, dict(TILE)
        batch, channels, depth, height, width = x.shape
        outputs, taps, pads = conv.out_channels, conv.kernel_size, conv.padding
        if set(conv.stride) != {1} or any(p > k - 1 for p, k in zip(pads, taps, strict=True)):
            raise ValueError("this kernel is written for a stride of one and paddings inside the kernel")
        if depth < 2 * pads[0]:
            raise ValueError("this kernel is written for inputs at least twice as deep as the padding")
        inputs = taps[0] * channels
        edges = (taps[1] - 1 - pads[1], taps[2] - 1 - pads[2])
        out_height = height + 2 * edges[0] - taps[1] + 1
        out_width = width + 2 * edges[1] - taps[2] + 1
        cudnn, at_once, block = tile.pop("CUDNN"), tile.pop("SUMS"), tile.pop("PIXELS")
        packed = torch.empty((outputs, taps[1], taps[2], inputs), device=x.device, dtype=x.dtype)
        pack_kernel[(triton.cdiv(packed.numel(), 512),)](
            conv.weight.contiguous(),
            packed,
            IN=channels,
            OUT=outputs,
            KD=taps[0],
            TAPS=taps[1] * taps[2],
            ROUND=x.is_cuda and not cudnn,
            BLOCK=512,
            num_warps=4,
        )
        sums = torch.empty((batch, height, width, inputs), device=x.device, dtype=x.dtype)
        block_c = min(16, triton.next_power_of_2(channels))
        grid = (batch * triton.cdiv(height * width, at_once), triton.cdiv(channels, block_c))
        depth_kernel[grid](
            x,
            sums,
            IN=channels,
            DEPTH=depth,
            PIXELS=height * width,
            KD=taps[0],
            PAD=pads[0],
            ROUND=x.is_cuda and not cudnn,
            BLOCK_C=block_c,
            BLOCK=at_once,
            num_warps=4,
        )
        y = torch.empty((batch, outputs, 1, out_height, out_width), device=x.device, dtype=x.dtype)
        grid = (batch * triton.cdiv(out_height * out_width, block),)
        sizes = {"OUT": outputs, "OUTPUTS": max(16, triton.next_power_of_2(outputs)), "BLOCK": block}
        if cudnn:
            last = F.conv2d(sums.permute(0, 3, 1, 2), packed.permute(0, 3, 1, 2), None, 1, edges)
            last = last.contiguous(memory_format=torch.channels_last)
            del tile["BLOCK_C"]
            epilogue_kernel[grid](
                last,
                conv.bias,
                self.bias,
                y,
                self.scaling_factor,
                PIXELS=out_height * out_width,
                **sizes,
                **tile,
            )
            return y
        conv_kernel[grid](
            sums,
            packed,
            conv.bias,
            self.bias,
            y,
            self.scaling_factor,
            IN=inputs,
            HEIGHT=height,
            WIDTH=width,
            OH=out_height,
            OW=out_width,
            KH=taps[1],
            KW=taps[2],
            PH=edges[0],
            PW=edges[1],
            **sizes,
            **tile,
        )
        return y
