"""Convolution, multiplier, instance normalisation, clamp, multiplier, maximum over the channels, two passes over the
input, which is small.

The convolution, a product, is made twice: for the statistics, sums and sums of squares about the mean of a first block
that are joined by Chan's formula as the result is made, and for the result, of which only the maximum is written. Its
bias cancels. An image is gone through as it lies, two neighbouring outputs at a time: they need four neighbours of
each row, which are two words of memory. So nothing is gathered, and no place is calculated. Places where no window
begins are left out.

Inputs, weights, outputs and what is multiplied are bf16; it sums in fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PAIRS": 64, "STEPS": 16, "BLOCKS": 14, "num_warps": 4, "num_stages": 1}


@triton.jit
def halves(x_ptr, words, there):
    """The numbers that begin these pairs, and those that end them; 0 where none is there."""
    if x_ptr.dtype.element_ty == tl.int32:
        word = tl.load(x_ptr + words, mask=there, other=0)
        low = word.to(tl.int16).to(tl.bfloat16, bitcast=True)
        high = (word >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        low = tl.load(x_ptr + 2 * words, mask=there, other=0.0)
        high = tl.load(x_ptr + 2 * words + 1, mask=there, other=0.0)
    return low, high


@triton.jit
def weights_of(
    weight_ptr,
    START: tl.constexpr,
    KW: tl.constexpr,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    """[row, output] of a column of the windows."""
    k = START + tl.arange(0, 32)[:, None]
    o = tl.arange(0, OUTPUTS)[None, :]
    return tl.load(weight_ptr + (o * ROWS + k) * 3 + KW, mask=(k < ROWS) & (o < OUT), other=0.0)


@triton.jit
def convolve(
    x_ptr,
    weight_ptr,
    pair,
    PLACES: tl.constexpr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """[pair, output] of an image, without the bias, where windows begin at even places and where at odd ones."""
    rows: tl.constexpr = IN * 9
    whole: tl.constexpr = ((DEPTH - 2) * HEIGHT - 2) * WIDTH // 2
    even = tl.zeros([pair.shape[0], OUTPUTS], tl.float32)
    odd = tl.zeros([pair.shape[0], OUTPUTS], tl.float32)
    for start in tl.static_range(0, rows, 32):
        k = tl.minimum(start + tl.arange(0, 32), rows - 1)
        row = (k // 9 * DEPTH + k // 3 % 3) * HEIGHT + k % 3
        words = (row * (WIDTH // 2))[:, None] + pair[None, :]
        x0, x1 = halves(x_ptr, words, (pair < whole)[None, :])
        x2, x3 = halves(x_ptr, words + 1, (pair < PLACES)[None, :])
        w0 = weights_of(weight_ptr, start, 0, rows, OUT, OUTPUTS)
        w1 = weights_of(weight_ptr, start, 1, rows, OUT, OUTPUTS)
        w2 = weights_of(weight_ptr, start, 2, rows, OUT, OUTPUTS)
        even = tl.dot(tl.trans(x0), w0, even, input_precision="ieee")
        odd = tl.dot(tl.trans(x1), w0, odd, input_precision="ieee")
        even = tl.dot(tl.trans(x1), w1, even, input_precision="ieee")
        odd = tl.dot(tl.trans(x2), w1, odd, input_precision="ieee")
        even = tl.dot(tl.trans(x2), w2, even, input_precision="ieee")
        odd = tl.dot(tl.trans(x3), w2, odd, input_precision="ieee")
    return even, odd


@triton.jit
def begins(place, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ACROSS: tl.constexpr, LAST: tl.constexpr):
    """Whether a window begins there."""
    return (place % WIDTH < ACROSS) & (place // WIDTH % HEIGHT < HEIGHT - 2) & (place <= LAST)


@triton.jit
def moments_kernel(
    x_ptr,
    weight_ptr,
    count_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    IN_WORD: tl.constexpr,
    ACROSS: tl.constexpr,
    PAIRS: tl.constexpr,
    STEPS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Count, mean and squared deviations of the channels in a part of an image, about the mean of its first block."""
    end: tl.constexpr = ((DEPTH - 3) * HEIGHT + HEIGHT - 3) * WIDTH + ACROSS - 1
    parts: tl.constexpr = (end // 2 + PAIRS * STEPS) // (PAIRS * STEPS)
    x_ptr += (tl.program_id(0) // parts).to(tl.int64) * (IN * DEPTH * HEIGHT * WIDTH // IN_WORD)
    first = tl.program_id(0) % parts * (PAIRS * STEPS)
    shift = tl.zeros([OUTPUTS], tl.float32)
    sums = tl.zeros([PAIRS, OUTPUTS], tl.float32)
    squares = tl.zeros([PAIRS, OUTPUTS], tl.float32)
    counts = tl.zeros([PAIRS], tl.float32)
    for step in tl.range(STEPS, num_stages=STAGES):
        pair = first + step * PAIRS + tl.arange(0, PAIRS)
        even, odd = convolve(x_ptr, weight_ptr, pair, end // 2 + 1, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH)
        here = begins(2 * pair, HEIGHT, WIDTH, ACROSS, end)
        there = begins(2 * pair + 1, HEIGHT, WIDTH, ACROSS, end)
        both = tl.where(here, 1.0, 0.0) + tl.where(there, 1.0, 0.0)
        if step == 0:
            begun = tl.where(here[:, None], even, 0.0) + tl.where(there[:, None], odd, 0.0)
            shift = tl.sum(begun, axis=0) / tl.maximum(tl.sum(both, axis=0), 1.0)
        even = tl.where(here[:, None], even - shift[None, :], 0.0)
        odd = tl.where(there[:, None], odd - shift[None, :], 0.0)
        sums += even + odd
        squares += even * even + odd * odd
        counts += both
    count = tl.sum(counts, axis=0)
    off = tl.sum(sums, axis=0) / tl.maximum(count, 1.0)
    slots = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    tl.store(count_ptr + tl.program_id(0), count)
    tl.store(mean_ptr + slots, shift + off)
    tl.store(m2_ptr + slots, tl.sum(squares, axis=0) - off * off * count)


@triton.jit
def answers(y, mean, scale, multiplier, low, high, OUT: tl.constexpr):
    """The maximum over the channels of what is normalised, clamped and multiplied."""
    y = (y - mean) * scale
    y = tl.where(y < low, low, y)
    y = tl.where(y > high, high, y) * multiplier
    y = tl.where((tl.arange(0, y.shape[1]) < OUT)[None, :], y, float("-inf"))
    return tl.max(y, axis=1)


@triton.jit
def result_kernel(
    x_ptr,
    weight_ptr,
    multiplier_ptr,
    count_ptr,
    mean_ptr,
    m2_ptr,
    y_ptr,
    eps,
    low,
    high,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    IN_WORD: tl.constexpr,
    ACROSS: tl.constexpr,
    PAIRS: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCKS: tl.constexpr,
    PARTS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The maxima over the channels at BLOCKS blocks of an image."""
    end: tl.constexpr = ((DEPTH - 3) * HEIGHT + HEIGHT - 3) * WIDTH + ACROSS - 1
    parts: tl.constexpr = (end // 2 + PAIRS * STEPS) // (PAIRS * STEPS)
    programs: tl.constexpr = (end // 2 + PAIRS * BLOCKS) // (PAIRS * BLOCKS)
    n: tl.constexpr = (DEPTH - 2) * (HEIGHT - 2) * ACROSS
    image = tl.program_id(0) // programs
    o = tl.arange(0, OUTPUTS)
    part = tl.arange(0, PARTS)
    counts = tl.load(count_ptr + image * parts + part, mask=part < parts, other=0.0)[:, None]
    slots = (image * parts + part[:, None]) * OUTPUTS + o[None, :]
    means = tl.load(mean_ptr + slots, mask=(part < parts)[:, None], other=0.0)
    m2 = tl.load(m2_ptr + slots, mask=(part < parts)[:, None], other=0.0)
    mean = tl.sum(means * counts, axis=0)[None, :] / n
    variance = tl.sum(m2 + counts * (means - mean) * (means - mean), axis=0)[None, :] / n
    multiplier = tl.load(multiplier_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[None, :]
    scale = multiplier / tl.sqrt(variance * multiplier * multiplier + eps)
    x_ptr += image.to(tl.int64) * (IN * DEPTH * HEIGHT * WIDTH // IN_WORD)
    y_ptr += image.to(tl.int64) * n
    first = tl.program_id(0) % programs * (PAIRS * BLOCKS)
    for block in tl.range(BLOCKS, num_stages=STAGES):
        start = first + block * PAIRS
        pair = start + tl.arange(0, PAIRS)
        even, odd = convolve(x_ptr, weight_ptr, pair, end // 2 + 1, IN, OUT, OUTPUTS, DEPTH, HEIGHT, WIDTH)
        even = answers(even, mean, scale, multiplier, low, high, OUT)
        odd = answers(odd, mean, scale, multiplier, low, high, OUT)
        y = tl.reshape(tl.join(even, odd), (2 * PAIRS,))
        place = 2 * start + tl.arange(0, 2 * PAIRS)
        row = place // WIDTH
        to = (row // HEIGHT * (HEIGHT - 2) + row % HEIGHT) * ACROSS + place % WIDTH
        tl.store(y_ptr + to, y, mask=begins(place, HEIGHT, WIDTH, ACROSS, end))


class ModelNew(nn.Module):
    """Convolution, learned multiplier, instance norm, clamp, multiplier again, maximum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        multiplier_shape: tuple[int, ...],
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.instance_norm = nn.InstanceNorm3d(out_channels)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv, dict(TILE)
        batch, inputs, depth, height, width = x.shape
        outputs = conv.out_channels
        if x.dtype not in (torch.bfloat16, torch.float32):
            raise ValueError("this kernel is written for bf16 and fp32")
        if conv.kernel_size != (3, 3, 3) or self.multiplier.numel() != outputs:
            raise ValueError("this kernel is written for windows of 3 and one multiplier a channel")
        x = F.pad(x, (0, 1)) if width % 2 else x.contiguous()  # Pairs begin at even places.
        x = x.clone() if x.data_ptr() % 4 else x
        shape = {
            "IN": inputs,
            "OUT": outputs,
            "OUTPUTS": max(16, triton.next_power_of_2(outputs)),
            "DEPTH": depth,
            "HEIGHT": height,
            "WIDTH": x.shape[4],
            "IN_WORD": 4 // x.element_size(),
            "ACROSS": width - 2,
            "STAGES": tile.pop("num_stages"),
        }
        pairs = (((depth - 3) * height + height - 3) * x.shape[4] + width - 3) // 2 + 1
        blocks = tile.pop("BLOCKS")
        parts = triton.cdiv(pairs, tile["PAIRS"] * tile["STEPS"])
        programs = triton.cdiv(pairs, tile["PAIRS"] * blocks)
        weight = conv.weight.contiguous()
        at_once = shape["OUTPUTS"]
        counts = torch.empty(batch * parts, device=x.device, dtype=torch.float32)
        moments = torch.empty((2, batch * parts * at_once), device=x.device, dtype=torch.float32)
        y = torch.empty((batch, depth - 2, height - 2, width - 2), device=x.device, dtype=x.dtype)
        words = x.view(torch.int32) if x.element_size() == 2 else x
        moments_kernel[(batch * parts,)](words, weight, counts, *moments, **shape, **tile)
        result_kernel[(batch * programs,)](
            words,
            weight,
            self.multiplier,
            counts,
            *moments,
            y,
            self.instance_norm.eps,
            self.clamp_min,
            self.clamp_max,
            BLOCKS=blocks,
            PARTS=triton.next_power_of_2(parts),
            **shape,
            **tile,
        )
        return y
