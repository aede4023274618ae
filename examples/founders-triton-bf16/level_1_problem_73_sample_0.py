"""Strided transposed 3D convolution, as one implicit product on the tensor cores, from a channels-last copy.

A tile holds positions of one phase of the rows, and its columns are pairs of an output channel and a phase along the
width, so that only taps that meet an input row are visited, and each output row is written once and in one piece.
The weight is first packed in that order.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import math

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"LAST": True, "BLOCK_P": 128, "BLOCK_O": 32, "BLOCK_C": 32, "num_warps": 8, "num_stages": 2}


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    STRIDE: tl.constexpr,
    DILATION: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    PHASES: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [depth tap, row tap, group, block of outputs, shift, block of inputs, (output, phase), (shift, input)]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c_in_block = index % BLOCK_C
    rest = index // BLOCK_C
    inner = rest % INNER
    rest = rest // INNER
    phase = rest % PHASES
    rest = rest // PHASES
    o_in_block = rest % BLOCK_O
    rest = rest // BLOCK_O
    c_blocks: tl.constexpr = (IN + BLOCK_C - 1) // BLOCK_C
    o_blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    c = rest % c_blocks * BLOCK_C + c_in_block
    rest = rest // c_blocks
    shift = rest % OUTER * INNER + inner
    rest = rest // OUTER
    o = rest % o_blocks * BLOCK_O + o_in_block
    rest = rest // o_blocks
    taps: tl.constexpr = KD * KH
    groups = total // (BLOCK_C * INNER * OUTER * PHASES * BLOCK_O * c_blocks * o_blocks * taps)
    group = rest % groups
    row_tap = rest // groups
    way = phase + shift * STRIDE
    tap = way // DILATION
    there = (index < total) & (phase < STRIDE) & (way % DILATION == 0) & (tap < KW) & (c < IN) & (o < OUT)
    source = (((group * IN + c) * OUT + o) * taps + row_tap) * KW + tap
    x = tl.load(weight_ptr + source, mask=there, other=0.0)
    tl.store(packed_ptr + index, x, mask=index < total)


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
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
    mask = (pixel < PIXELS)[:, None] & (c < CHANNELS)[None, :]
    offsets = pixel[:, None] * CHANNELS + c[None, :]
    tl.store(last_ptr + sample * (CHANNELS * PIXELS) + offsets, tl.trans(x), mask=mask)


@triton.jit(
    do_not_specialize=["nothing"]
)  # else the copies of the images are of 16 bytes, which pass by the L1 cache
def transposed_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    y_ptr,
    nothing,
    tiles,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    GROUPS: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    OD: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    KD: tl.constexpr,
    KH: tl.constexpr,
    SD: tl.constexpr,
    SH: tl.constexpr,
    SW: tl.constexpr,
    PD: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    DD: tl.constexpr,
    DH: tl.constexpr,
    GCD_D: tl.constexpr,
    GCD_H: tl.constexpr,
    GAP: tl.constexpr,
    SPREAD: tl.constexpr,
    OUTER: tl.constexpr,
    INNER: tl.constexpr,
    PHASES: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_C: tl.constexpr,
    LAST: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One tile of one phase of rows: all phases along the width, of some output channels of one group."""
    c_blocks: tl.constexpr = (IN + BLOCK_C - 1) // BLOCK_C
    o_blocks: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O
    first_u: tl.constexpr = PW // SW
    first_h: tl.constexpr = PH // SH
    first_d: tl.constexpr = PD // SD
    count_u: tl.constexpr = (OW - 1 + PW) // SW - first_u + 1
    count_h: tl.constexpr = (OH - 1 + PH) // SH - first_h + 1
    count_d: tl.constexpr = (OD - 1 + PD) // SD - first_d + 1
    K: tl.constexpr = INNER * BLOCK_C
    N: tl.constexpr = BLOCK_O * PHASES

    pid = tl.program_id(0)
    slice_ = pid % (GROUPS * o_blocks)
    pid = pid // (GROUPS * o_blocks)
    phase_h = pid % SH
    pid = pid // SH
    phase_d = pid % SD
    pid = pid // SD
    tile = pid % tiles
    sample = (pid // tiles).to(tl.int64)
    group = slice_ // o_blocks
    o_block = slice_ % o_blocks

    first_tap_d = KD
    count_tap_d = 0
    for tap in tl.static_range(KD - 1, -1, -1):
        hit = (tap * DD) % SD == phase_d
        first_tap_d = tl.where(hit, tap, first_tap_d)
        count_tap_d += tl.where(hit, 1, 0)
    first_tap_h = KH
    count_tap_h = 0
    for tap in tl.static_range(KH - 1, -1, -1):
        hit = (tap * DH) % SH == phase_h
        first_tap_h = tl.where(hit, tap, first_tap_h)
        count_tap_h += tl.where(hit, 1, 0)

    p = tile * BLOCK_P + tl.arange(0, BLOCK_P)
    u = p % count_u + first_u
    row = p // count_u % count_h + first_h
    plane = p // (count_u * count_h) + first_d
    k = tl.arange(0, K)
    shift = k // BLOCK_C
    c = k % BLOCK_C
    n = tl.arange(0, N)
    real = plane < count_d + first_d
    if LAST:
        column = u[:, None] - shift[None, :]
        x_ptr += sample * (GROUPS * IN * D * H * W) + group * IN + 4 * nothing
        x_offsets = column * (GROUPS * IN) + c[None, :]
    else:
        column = u[None, :] - shift[:, None]
        x_ptr += (sample * GROUPS + group) * IN * D * H * W
        x_offsets = c[:, None] * (D * H * W) + column
    acc = tl.zeros([BLOCK_P, N], tl.float32)
    for t in tl.range(0, count_tap_d * count_tap_h * OUTER * c_blocks, num_stages=STAGES):
        c_block = t % c_blocks
        outer = t // c_blocks % OUTER
        tap_h = first_tap_h + t // (c_blocks * OUTER) % count_tap_h * (SH // GCD_H)
        tap_d = first_tap_d + t // (c_blocks * OUTER) // count_tap_h * (SD // GCD_D)
        i = row - (tap_h * DH - phase_h) // SH
        j = plane - (tap_d * DD - phase_d) // SD
        inside = real & (i >= 0) & (i < H) & (j >= 0) & (j < D)
        left = outer * INNER
        there = (column >= left) & (column < W + left)
        line = j * (H * W) + i * W - left
        block = (
            (((tap_d * KH + tap_h) * GROUPS + group) * o_blocks + o_block) * OUTER + outer
        ) * c_blocks + c_block
        w = tl.load(packed_ptr + block * (N * K) + n[:, None] * K + k[None, :])
        if LAST:
            mask = there & inside[:, None]
            if IN % BLOCK_C:
                mask = mask & (c_block * BLOCK_C + c < IN)[None, :]
            x = tl.load(
                x_ptr + (c_block * BLOCK_C + x_offsets + (line * (GROUPS * IN))[:, None]),
                mask=mask,
                other=0.0,
            )
            acc = tl.dot(x, tl.trans(w), acc)
        else:
            mask = there & inside[None, :]
            if IN % BLOCK_C:
                mask = mask & (c_block * BLOCK_C + c < IN)[:, None]
            x = tl.load(
                x_ptr + (c_block * BLOCK_C * (D * H * W) + x_offsets + line[None, :]), mask=mask, other=0.0
            )
            acc = tl.dot(tl.trans(x), tl.trans(w), acc)

    y = tl.reshape(
        tl.permute(tl.reshape(acc, [BLOCK_P, BLOCK_O, PHASES]), (1, 0, 2)), [BLOCK_O, BLOCK_P * PHASES]
    )
    if SPREAD > 1:
        first = (tl.arange(0, SPREAD) == 0)[None, None, :]
        y = tl.reshape(tl.where(first, y[:, :, None], 0.0), [BLOCK_O, BLOCK_P * PHASES * SPREAD])
    o = o_block * BLOCK_O + tl.arange(0, BLOCK_O)
    if HAS_BIAS:
        y += tl.load(bias_ptr + group * OUT + o, mask=o < OUT, other=0.0)[:, None]
    q = tl.arange(0, BLOCK_P * PHASES * SPREAD)
    phase = q // SPREAD % PHASES * GAP + q % SPREAD
    p = tile * BLOCK_P + q // (PHASES * SPREAD)
    ow = (p % count_u + first_u) * SW + phase - PW
    oh = (p // count_u % count_h + first_h) * SH + phase_h - PH
    od = (p // (count_u * count_h) + first_d) * SD + phase_d - PD
    inside = (
        (phase < SW)
        & (q % SPREAD < GAP)
        & (ow >= 0)
        & (ow < OW)
        & (oh >= 0)
        & (oh < OH)
        & (od >= 0)
        & (od < OD)
    )
    y_ptr += ((sample * GROUPS + group) * OUT) * OD * OH * OW
    offsets = o[:, None] * (OD * OH * OW) + (od * (OH * OW) + oh * OW + ow)[None, :]
    tl.store(y_ptr + offsets, y, mask=(o < OUT)[:, None] & inside[None, :])


def conv_transpose(x: torch.Tensor, conv: nn.Module) -> torch.Tensor:
    """The transposed convolution of a module of two or three dimensions; two have a depth of one."""
    weight = conv.weight.contiguous()
    x = x.contiguous()
    flat = (1,) * (3 - len(conv.kernel_size))
    kernel, stride = flat + tuple(conv.kernel_size), flat + tuple(conv.stride)
    dilation = flat + tuple(conv.dilation)
    padding = (0,) * len(flat) + tuple(conv.padding)
    extra = (0,) * len(flat) + tuple(conv.output_padding)
    size = flat + tuple(x.shape[2:])
    out = tuple(
        (size[a] - 1) * stride[a] - 2 * padding[a] + dilation[a] * (kernel[a] - 1) + extra[a] + 1
        for a in range(3)
    )
    groups = conv.groups
    channels, features = conv.in_channels // groups, conv.out_channels // groups
    if conv.in_channels * math.prod(size) >= 2**31 or features * math.prod(out) >= 2**31:
        raise ValueError("this kernel is written for images of fewer than 2^31 elements")
    tile = dict(TILE)
    block_c = min(tile.pop("BLOCK_C"), max(8, triton.next_power_of_2(channels)))
    block_o = min(tile.pop("BLOCK_O"), triton.next_power_of_2(features))
    stages = tile.pop("num_stages")
    gap = math.gcd(stride[2], dilation[2])
    phases = triton.next_power_of_2(stride[2] // gap)
    shifts = (kernel[2] - 1) * dilation[2] // stride[2] + 1
    inner, outer = (1, shifts) if shifts & (shifts - 1) else (shifts, 1)
    block_c = max(block_c, 16 // inner)
    block_o = max(block_o, 16 // phases)
    y = torch.empty((x.shape[0], conv.out_channels, *out[len(flat) :]), device=x.device, dtype=x.dtype)
    o_blocks, c_blocks = triton.cdiv(features, block_o), triton.cdiv(channels, block_c)
    total = kernel[0] * kernel[1] * groups * o_blocks * c_blocks * block_o * phases * shifts * block_c
    packed = torch.empty(total, device=x.device, dtype=x.dtype)
    pack_kernel[(triton.cdiv(total, 512),)](
        weight,
        packed,
        total,
        IN=channels,
        OUT=features,
        KD=kernel[0],
        KH=kernel[1],
        KW=kernel[2],
        STRIDE=stride[2] // gap,
        DILATION=dilation[2] // gap,
        OUTER=outer,
        INNER=inner,
        PHASES=phases,
        BLOCK_O=block_o,
        BLOCK_C=block_c,
        BLOCK=512,
        num_warps=4,
    )
    source = x
    if tile["LAST"]:
        source = torch.empty_like(x)
        pixels, width = math.prod(size), min(32, max(16, triton.next_power_of_2(conv.in_channels)))
        channels_last_kernel[(x.shape[0] * triton.cdiv(pixels, 128), triton.cdiv(conv.in_channels, width))](
            x,
            source,
            PIXELS=pixels,
            CHANNELS=conv.in_channels,
            BLOCK=128,
            BLOCK_C=width,
            num_warps=4,
        )
    places = math.prod((out[a] - 1 + padding[a]) // stride[a] - padding[a] // stride[a] + 1 for a in range(3))
    tiles = triton.cdiv(places, tile["BLOCK_P"])
    transposed_kernel[(x.shape[0] * tiles * stride[0] * stride[1] * groups * o_blocks,)](
        source,
        packed,
        packed if conv.bias is None else conv.bias,
        y,
        0,
        tiles,
        IN=channels,
        OUT=features,
        GROUPS=groups,
        D=size[0],
        H=size[1],
        W=size[2],
        OD=out[0],
        OH=out[1],
        OW=out[2],
        KD=kernel[0],
        KH=kernel[1],
        SD=stride[0],
        SH=stride[1],
        SW=stride[2],
        PD=padding[0],
        PH=padding[1],
        PW=padding[2],
        DD=dilation[0],
        DH=dilation[1],
        GCD_D=math.gcd(stride[0], dilation[0]),
        GCD_H=math.gcd(stride[1], dilation[1]),
        GAP=gap,
        SPREAD=triton.next_power_of_2(gap),
        OUTER=outer,
        INNER=inner,
        PHASES=phases,
        HAS_BIAS=conv.bias is not None,
        BLOCK_O=block_o,
        BLOCK_C=block_c,
        STAGES=stages,
        **tile,
    )
    return y


class ModelNew(nn.Module):
    """Strided transposed 3D convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return conv_transpose(x, self.conv_transpose3d)
