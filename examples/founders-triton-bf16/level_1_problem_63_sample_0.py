"""Convolution with an oblong kernel, as one implicit product on the tensor cores, from a channels-last copy of the
input.

A tile is a rectangle of outputs. It walks over the taps of a few input channels before the next ones, so that shifted
loads hit the cache. The weight is first packed in that order, and results are written as PyTorch lays them out.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "CACHED": True,
    "ROWS": 2,
    "COLUMNS": 64,
    "REPEAT": 1,
    "BLOCK_O": 128,
    "BLOCK_C": 16,
    "num_warps": 4,
    "num_stages": 4,
}


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    TRANSPOSED: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    DH: tl.constexpr,
    WINDOW: tl.constexpr,
    REPEAT: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [group, block of outputs, block of inputs, window row, tap, (output, row), input]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c_blocks: tl.constexpr = (IN + BLOCK_C - 1) // BLOCK_C
    o_blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    c = index % BLOCK_C
    rest = index // BLOCK_C
    row = rest % REPEAT
    rest = rest // REPEAT
    o = rest % BLOCK_O
    rest = rest // BLOCK_O
    tap_w = rest % KW
    rest = rest // KW
    way = rest % WINDOW - row
    rest = rest // WINDOW
    c += rest % c_blocks * BLOCK_C
    rest = rest // c_blocks
    o += rest % o_blocks * BLOCK_O
    group = rest // o_blocks
    tap_h = way // DH
    there = (index < total) & (way >= 0) & (way % DH == 0) & (tap_h < KH) & (c < IN) & (o < OUT)
    if TRANSPOSED:
        source = (((group * IN + c) * OUT + o) * KH + KH - 1 - tap_h) * KW + KW - 1 - tap_w
    else:
        source = (((group * OUT + o) * IN + c) * KH + tap_h) * KW + tap_w
    x = tl.load(weight_ptr + source, mask=there, other=0.0)
    tl.store(packed_ptr + index, x, mask=index < total)


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Images with the channels of a pixel side by side."""
    blocks: tl.constexpr = (PIXELS + BLOCK - 1) // BLOCK
    sample = (tl.program_id(0) // blocks).to(tl.int64)
    pixel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (c < CHANNELS)[:, None] & (pixel < PIXELS)[None, :]
    x = tl.load(
        x_ptr + sample * (CHANNELS * PIXELS) + c[:, None] * PIXELS + pixel[None, :], mask=mask, other=0.0
    )
    mask = (pixel < PIXELS)[:, None] & (c < PADDED)[None, :]
    offsets = pixel[:, None] * PADDED + c[None, :]
    tl.store(last_ptr + sample * (PADDED * PIXELS) + offsets, tl.trans(x), mask=mask)


@triton.jit(do_not_specialize=["nothing"])
def conv_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    y_ptr,
    nothing,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    GROUPS: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    KW: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DW: tl.constexpr,
    WINDOW: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    REPEAT: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    CACHED: tl.constexpr,
):
    """A rectangle of ROWS * REPEAT x COLUMNS outputs of some channels; REPEAT rows share what they read."""
    c_blocks: tl.constexpr = (IN + BLOCK_C - 1) // BLOCK_C
    o_blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    across: tl.constexpr = (OW + COLUMNS - 1) // COLUMNS
    down: tl.constexpr = (OH + ROWS * REPEAT - 1) // (ROWS * REPEAT)
    P: tl.constexpr = ROWS * COLUMNS
    N: tl.constexpr = BLOCK_O * REPEAT
    PADDED: tl.constexpr = PH + PW > 0

    pid = tl.program_id(0)
    slice_ = pid % (GROUPS * o_blocks)
    pid = pid // (GROUPS * o_blocks)
    left = pid % across * COLUMNS
    pid = pid // across
    top = pid % down * (ROWS * REPEAT)
    sample = (pid // down).to(tl.int64)
    group = slice_ // o_blocks
    o_block = slice_ % o_blocks

    p = tl.arange(0, P)
    row = top + p // COLUMNS * REPEAT - PH
    column = left + p % COLUMNS - PW
    if not PADDED:
        if OH % (ROWS * REPEAT):
            row = tl.minimum(row, H - WINDOW)
        if OW % COLUMNS:
            column = tl.minimum(column, OW - 1)
    c = tl.arange(0, BLOCK_C)
    weight_offsets = tl.arange(0, N)[:, None] * BLOCK_C + c[None, :]
    PIXEL: tl.constexpr = GROUPS * c_blocks * BLOCK_C
    x_ptr += sample * (H * W * PIXEL) + group * (c_blocks * BLOCK_C)
    if CACHED:
        x_ptr += 4 * nothing  # else the copies are of 16 bytes, which pass by the L1 cache
    x_offsets = (row * W + column)[:, None] * PIXEL + c[None, :]
    packed_ptr += slice_ * (c_blocks * WINDOW * KW * N * BLOCK_C)
    acc = tl.zeros([P, N], tl.float32)
    for t in range(c_blocks * WINDOW * KW):
        tap_w = t % KW
        tap_h = t // KW % WINDOW
        c_start = t // (KW * WINDOW) * BLOCK_C
        x_ptrs = x_ptr + (c_start + (tap_h * W + tap_w * DW) * PIXEL) + x_offsets
        w = tl.load(packed_ptr + t * (N * BLOCK_C) + weight_offsets)
        if PADDED:
            i = row + tap_h
            j = column + tap_w * DW
            x = tl.load(x_ptrs, mask=((i >= 0) & (i < H) & (j >= 0) & (j < W))[:, None], other=0.0)
        else:
            x = tl.load(x_ptrs)
        acc = tl.dot(x, tl.trans(w), acc)

    n = tl.arange(0, N)
    o = o_block * BLOCK_O + n // REPEAT
    y = tl.trans(acc)
    if HAS_BIAS:
        y += tl.load(bias_ptr + group * OUT + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
    row = top + (p // COLUMNS * REPEAT)[None, :] + (n % REPEAT)[:, None]
    column = left + p % COLUMNS
    y_ptr += (sample * GROUPS + group) * OUT * OH * OW
    offsets = o[:, None] * (OH * OW) + row * OW + column[None, :]
    tl.store(y_ptr + offsets, y, mask=(o < OUT)[:, None] & (row < OH) & (column < OW)[None, :])


def convolve(x: torch.Tensor, conv: nn.Module) -> torch.Tensor:
    """The convolution or transposed convolution of a module, with a stride of one."""
    if tuple(conv.stride) != (1, 1) or conv.padding_mode != "zeros" or isinstance(conv.padding, str):
        raise ValueError("this kernel is written for strides of one and zeros around")
    x = x.contiguous()
    weight = conv.weight.contiguous()
    transposed = isinstance(conv, nn.ConvTranspose2d)
    kernel, dilation, padding = conv.kernel_size, conv.dilation, conv.padding
    height, width = x.shape[2:]
    if transposed:
        padding = tuple(dilation[a] * (kernel[a] - 1) - conv.padding[a] for a in range(2))
        if min(padding) < 0 or any(conv.output_padding):
            raise ValueError(
                "this kernel is written for paddings inside the kernel and none beside the output"
            )
    out_height = height + 2 * padding[0] - dilation[0] * (kernel[0] - 1)
    out_width = width + 2 * padding[1] - dilation[1] * (kernel[1] - 1)
    y = torch.empty((x.shape[0], conv.out_channels, out_height, out_width), device=x.device, dtype=x.dtype)
    if kernel == (1, 1) and padding == (0, 0):
        height, width = 1, height * width
        out_height, out_width = height, width
    channels, features = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    if max(channels, features) * max(height * width, out_height * out_width) >= 2**31:
        raise ValueError("this kernel is written for images of fewer than 2^31 elements")
    tile = dict(TILE)
    block_c = min(tile.pop("BLOCK_C"), max(16, triton.next_power_of_2(channels)))
    block_o = min(tile.pop("BLOCK_O"), max(16, triton.next_power_of_2(features)))
    repeat = tile.pop("REPEAT")
    if out_height % repeat and padding == (0, 0):
        repeat = 1
    window = (kernel[0] - 1) * dilation[0] + repeat
    slices = conv.groups * triton.cdiv(features, block_o)
    total = slices * triton.cdiv(channels, block_c) * window * kernel[1] * block_o * repeat * block_c
    packed = torch.empty(total, device=x.device, dtype=x.dtype)
    pack_kernel[(triton.cdiv(total, 512),)](
        weight,
        packed,
        total,
        TRANSPOSED=transposed,
        IN=channels,
        OUT=features,
        KH=kernel[0],
        KW=kernel[1],
        DH=dilation[0],
        WINDOW=window,
        REPEAT=repeat,
        BLOCK_O=block_o,
        BLOCK_C=block_c,
        BLOCK=512,
        num_warps=4,
    )
    padded, pixels = triton.cdiv(channels, block_c) * block_c, height * width
    if padded != channels and conv.groups > 1 or padded * conv.groups * pixels >= 2**31:
        raise ValueError("this kernel is written for fewer channels, or more even ones")
    padded *= conv.groups
    source = torch.empty((x.shape[0], pixels, padded), device=x.device, dtype=x.dtype)
    channels_last_kernel[(x.shape[0] * triton.cdiv(pixels, 128), triton.cdiv(padded, min(64, block_c)))](
        x,
        source,
        PIXELS=pixels,
        CHANNELS=x.shape[1],
        PADDED=padded,
        BLOCK=128,
        BLOCK_C=min(64, block_c),
        num_warps=4,
    )
    tiles = triton.cdiv(out_height, tile["ROWS"] * repeat) * triton.cdiv(out_width, tile["COLUMNS"])
    conv_kernel[(x.shape[0] * tiles * slices,)](
        source,
        packed,
        packed if conv.bias is None else conv.bias,
        y,
        0,
        IN=channels,
        OUT=features,
        GROUPS=conv.groups,
        H=height,
        W=width,
        OH=out_height,
        OW=out_width,
        KW=kernel[1],
        PH=padding[0],
        PW=padding[1],
        DW=dilation[1],
        WINDOW=window,
        HAS_BIAS=conv.bias is not None,
        REPEAT=repeat,
        BLOCK_O=block_o,
        BLOCK_C=block_c,
        **tile,
    )
    return y


class ModelNew(nn.Module):
    """Convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return convolve(x, self.conv2d)
