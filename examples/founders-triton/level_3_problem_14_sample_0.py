"""DenseNet block in training mode: a layer is one pass of batch norm and ReLU and one convolution.

The pass writes the map with the channels innermost, in a frame of zeros, and splits each number into two of fp16, high
and low, 22 bits together. A power of two for each channel keeps them in range. In the frame every tap lies a constant
distance away. So the convolution loads nothing but aligned runs, and a program's four rows of results share what they
load. Three fp16 products on the tensor cores have the accuracy of fp32. The convolution writes its channels where the
concatenation wants them, and takes their moments. So each channel's moments are found once. Eager PyTorch concatenates
and takes all moments anew in every layer.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_P": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2, "maxnreg": 168}
ROWS = 4
"""Rows of results of a program."""
GUARD = 8
"""Pixels in front of the frame: the first row's left neighbour is one of them."""


@triton.jit
def copy_kernel(
    x_ptr, out_ptr, mean_ptr, m2_ptr, count_ptr, channels, total, PIXELS: tl.constexpr, BLOCK: tl.constexpr
):
    """Copy a part of a plane to its place in the result, and its moments."""
    plane = tl.program_id(1)
    sample, channel = plane // channels, plane % channels
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < PIXELS
    x = tl.load(x_ptr + plane.to(tl.int64) * PIXELS + lanes, mask=mask, other=0.0)
    tl.store(out_ptr + (sample.to(tl.int64) * total + channel) * PIXELS + lanes, x, mask=mask)
    count = tl.minimum(PIXELS - tl.program_id(0) * BLOCK, BLOCK).to(tl.float32)
    mean = tl.sum(x, axis=0) / count
    rest = tl.where(mask, x - mean, 0.0)
    slots = tl.num_programs(0) * (tl.num_programs(1) // channels)
    slot = channel * slots + sample * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, mean)
    tl.store(m2_ptr + slot, tl.sum(rest * rest, axis=0))
    tl.store(count_ptr + slot, count)


@triton.jit
def join_kernel(mean_ptr, m2_ptr, count_ptr, moments_ptr, first, slots, BLOCK: tl.constexpr):
    """Join the moments of a channel's parts: mean, variance, and the variance that running statistics take."""
    channel = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < slots
    means = tl.load(mean_ptr + channel * slots + lanes, mask=mask, other=0.0)
    m2 = tl.load(m2_ptr + channel * slots + lanes, mask=mask, other=0.0)
    counts = tl.load(count_ptr + channel * slots + lanes, mask=mask, other=0.0)
    count = tl.sum(counts, axis=0)
    mean = tl.sum(counts * means, axis=0) / count
    total = tl.sum(m2 + counts * (means - mean) * (means - mean), axis=0)
    moments_ptr += (first + channel) * 3
    tl.store(moments_ptr, mean)
    tl.store(moments_ptr + 1, total / count)
    tl.store(moments_ptr + 2, total / (count - 1))


@triton.jit
def steps_to_top(bound):
    """The exponent, as fp32 stores it, of the power of two that brings a bound between 2^14 and 2^15."""
    return tl.minimum(268 - ((bound.to(tl.int32, bitcast=True) >> 23) & 255), 253)


@triton.jit
def power(exponent):
    return (exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def channel_steps(weight, bias, count):
    """That of a channel's activations: no number lies further from a mean of n than sqrt(n) deviations."""
    return steps_to_top(tl.abs(weight) * tl.sqrt(count) + tl.abs(bias))


@triton.jit
def pack_kernel(
    conv_ptr,
    weight_ptr,
    bias_ptr,
    packed_ptr,
    unscale_ptr,
    outs,
    channels,
    count,
    OUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """An output's weights into (chunk, column, row, part, output, input), their range that of fp16."""
    out = tl.program_id(0)
    channel = tl.arange(0, CHANNELS)
    there = channel < channels
    kept = there & (out < outs)
    gamma = tl.load(weight_ptr + channel, mask=there, other=0.0)
    beta = tl.load(bias_ptr + channel, mask=there, other=0.0)
    unscale = power(254 - channel_steps(gamma, beta, count))
    top = tl.zeros([CHANNELS], tl.float32)
    for tap in range(9):
        w = tl.load(conv_ptr + (out * channels + channel) * 9 + tap, mask=kept, other=0.0)
        top = tl.maximum(top, tl.abs(w * unscale))
    steps = steps_to_top(tl.max(top, axis=0))
    tl.store(unscale_ptr + out, power(254 - steps))
    chunk, inner = channel // BLOCK_K, channel % BLOCK_K
    for tap in range(9):
        w = tl.load(conv_ptr + (out * channels + channel) * 9 + tap, mask=kept, other=0.0)
        w = w * unscale * power(steps)
        high = w.to(tl.float16)
        place = (chunk * 3 + tap % 3) * 3 + tap // 3
        ptrs = packed_ptr + (place * 2 * OUTS + out) * BLOCK_K + inner
        within = channel < tl.cdiv(channels, BLOCK_K) * BLOCK_K
        tl.store(ptrs, high, mask=within)
        tl.store(ptrs + OUTS * BLOCK_K, (w - high.to(tl.float32)).to(tl.float16), mask=within)


@triton.jit
def norm_kernel(
    x_ptr,
    moments_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    framed_ptr,
    channels,
    total,
    columns,
    plane,
    count,
    eps,
    momentum,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_W: tl.constexpr,
    GUARD: tl.constexpr,
):
    """Batch norm and ReLU of a row of an image into the frame, in two parts; updates the running statistics."""
    row, image = tl.program_id(0) % (HEIGHT + 2), tl.program_id(0) // (HEIGHT + 2)
    inner = tl.arange(0, BLOCK_K)
    channel = tl.program_id(2) * BLOCK_K + inner
    kept = channel < channels
    mean = tl.load(moments_ptr + channel * 3, mask=kept, other=0.0)
    var = tl.load(moments_ptr + channel * 3 + 1, mask=kept, other=1.0)
    gamma = tl.load(weight_ptr + channel, mask=kept, other=0.0)
    beta = tl.load(bias_ptr + channel, mask=kept, other=0.0)
    if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
        old_mean = tl.load(running_mean_ptr + channel, mask=kept)
        old_var = tl.load(running_var_ptr + channel, mask=kept)
        new_var = tl.load(moments_ptr + channel * 3 + 2, mask=kept)
        tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean), mask=kept)
        tl.store(running_var_ptr + channel, old_var + momentum * (new_var - old_var), mask=kept)
        if tl.program_id(2) == 0:
            tl.store(batches_ptr, tl.load(batches_ptr) + 1)
    steps = power(channel_steps(gamma, beta, count))
    scale = gamma / tl.sqrt(var + eps)
    shift = (beta - mean * scale) * steps
    scale = scale * steps
    column = tl.program_id(1) * BLOCK_W + tl.arange(0, BLOCK_W)
    inside = kept[:, None] & (column < WIDTH)[None, :] & (row >= 1) & (row <= HEIGHT)
    x_ptr += image.to(tl.int64) * total * (HEIGHT * WIDTH)
    offsets = channel[:, None] * (HEIGHT * WIDTH) + ((row - 1) * WIDTH + column)[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    x = x * scale[:, None] + shift[:, None]
    x = tl.where(inside, tl.where(x < 0.0, 0.0, x), 0.0)
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    first = framed_ptr + tl.program_id(2).to(tl.int64) * 2 * plane
    second = first + plane
    if tl.program_id(0) + tl.program_id(1) == 0:
        tl.store(first + (GUARD - 1) * BLOCK_K + inner, tl.zeros([BLOCK_K], tl.float16))
        tl.store(second + (GUARD - 1) * BLOCK_K + inner, tl.zeros([BLOCK_K], tl.float16))
    spot = GUARD + row * columns + image * (WIDTH + 1) + column
    offsets = spot[None, :] * BLOCK_K + inner[:, None]
    written = (column <= WIDTH)[None, :] & (inner >= 0)[:, None]
    tl.store(first + offsets, high, mask=written)
    tl.store(second + offsets, low, mask=written)


@triton.jit
def load_rows(ptrs, stride):
    """Six rows of the frame."""
    x0 = tl.load(ptrs)
    x1 = tl.load(ptrs + stride)
    x2 = tl.load(ptrs + 2 * stride)
    x3 = tl.load(ptrs + 3 * stride)
    x4 = tl.load(ptrs + 4 * stride)
    x5 = tl.load(ptrs + 5 * stride)
    return x0, x1, x2, x3, x4, x5


@triton.jit
def add_products(y, x_high, x_low, w_high, w_low):
    """y + x W^T, small terms first."""
    y = tl.dot(x_low, tl.trans(w_high), y)
    y = tl.dot(x_high, tl.trans(w_low), y)
    return tl.dot(x_high, tl.trans(w_high), y)


@triton.jit
def finish_row(y, unscale, out_ptr, row, column, image, across, out, outs, columns, HEIGHT, WIDTH):
    """Write a row of results; returns it with zeros where nothing is."""
    y = tl.trans(y * unscale[None, :])
    there = (column < columns) & (across < WIDTH) & (row < HEIGHT)
    kept = there[None, :] & (out < outs)[:, None]
    spot = image + row * WIDTH + across
    tl.store(out_ptr + out[:, None] * (HEIGHT * WIDTH) + spot[None, :], y, mask=kept)
    return tl.where(kept, y, 0.0), kept


@triton.jit
def spread(y, kept, mean):
    rest = tl.where(kept, y - mean[:, None], 0.0)
    return tl.sum(rest * rest, axis=1)


@triton.jit
def conv_kernel(
    framed_ptr,
    packed_ptr,
    unscale_ptr,
    out_ptr,
    mean_ptr,
    m2_ptr,
    count_ptr,
    outs,
    total,
    columns,
    plane,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNKS: tl.constexpr,
    OUTS: tl.constexpr,
    ROWS: tl.constexpr,
    GUARD: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Four rows of a 3x3 convolution, written where the concatenation wants them, and their moments."""
    column = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    first = tl.program_id(1) * ROWS
    depth = tl.arange(0, BLOCK_K)
    out = tl.arange(0, OUTS)
    x_ptrs = framed_ptr + (GUARD - 1 + first * columns + column)[:, None] * BLOCK_K + depth[None, :]
    w_ptrs = packed_ptr + out[:, None] * BLOCK_K + depth[None, :]
    stride = columns * BLOCK_K
    part: tl.constexpr = OUTS * BLOCK_K
    y0 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y1 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y2 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y3 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    for step in range(CHUNKS * 3):
        at = x_ptrs + (tl.cast(step // 3, tl.int64) * 2 * plane + step % 3 * BLOCK_K)
        h0, h1, h2, h3, h4, h5 = load_rows(at, stride)
        l0, l1, l2, l3, l4, l5 = load_rows(at + plane, stride)
        weights = w_ptrs + step * (6 * part)
        a_high = tl.load(weights)
        a_low = tl.load(weights + part)
        b_high = tl.load(weights + 2 * part)
        b_low = tl.load(weights + 3 * part)
        c_high = tl.load(weights + 4 * part)
        c_low = tl.load(weights + 5 * part)
        y0 = add_products(y0, h0, l0, a_high, a_low)
        y1 = add_products(y1, h1, l1, a_high, a_low)
        y2 = add_products(y2, h2, l2, a_high, a_low)
        y3 = add_products(y3, h3, l3, a_high, a_low)
        y0 = add_products(y0, h1, l1, b_high, b_low)
        y1 = add_products(y1, h2, l2, b_high, b_low)
        y2 = add_products(y2, h3, l3, b_high, b_low)
        y3 = add_products(y3, h4, l4, b_high, b_low)
        y0 = add_products(y0, h2, l2, c_high, c_low)
        y1 = add_products(y1, h3, l3, c_high, c_low)
        y2 = add_products(y2, h4, l4, c_high, c_low)
        y3 = add_products(y3, h5, l5, c_high, c_low)
    unscale = tl.load(unscale_ptr + out)
    image = (column // (WIDTH + 1)).to(tl.int64) * total * (HEIGHT * WIDTH)
    across = column % (WIDTH + 1)
    y0, kept0 = finish_row(
        y0, unscale, out_ptr, first, column, image, across, out, outs, columns, HEIGHT, WIDTH
    )
    y1, kept1 = finish_row(
        y1, unscale, out_ptr, first + 1, column, image, across, out, outs, columns, HEIGHT, WIDTH
    )
    y2, kept2 = finish_row(
        y2, unscale, out_ptr, first + 2, column, image, across, out, outs, columns, HEIGHT, WIDTH
    )
    y3, kept3 = finish_row(
        y3, unscale, out_ptr, first + 3, column, image, across, out, outs, columns, HEIGHT, WIDTH
    )
    rows = tl.minimum(HEIGHT - first, ROWS)
    count = rows * tl.sum(((column < columns) & (across < WIDTH)).to(tl.int32), axis=0)
    count = count.to(tl.float32)
    mean = tl.sum(y0 + y1 + y2 + y3, axis=1) / tl.maximum(count, 1.0)
    m2 = spread(y0, kept0, mean) + spread(y1, kept1, mean) + spread(y2, kept2, mean) + spread(y3, kept3, mean)
    slots = tl.num_programs(0) * tl.num_programs(1)
    slot = out * slots + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, mean, mask=out < outs)
    tl.store(m2_ptr + slot, m2, mask=out < outs)
    tl.store(count_ptr + slot, tl.zeros([OUTS], tl.float32) + count, mask=out < outs)


def join(parts: torch.Tensor, moments: torch.Tensor, first: int) -> None:
    """Put the joined moments of some channels where those of the result's channels lie."""
    _, channels, slots = parts.shape
    join_kernel[(channels,)](*parts, moments, first, slots, BLOCK=triton.next_power_of_2(slots), num_warps=8)


class ModelNew(nn.Module):
    """A DenseNet block without 1x1 bottleneck convolutions."""

    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            self._layer(num_input_features + index * growth_rate, growth_rate) for index in range(num_layers)
        )
        if growth_rate > 128:
            raise ValueError("this kernel is written for up to 128 new channels a layer")

    @staticmethod
    def _layer(in_features, growth_rate):
        return nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_features, growth_rate, kernel_size=3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        x = x.contiguous()
        tile = dict(TILE)
        block_p, block_k = tile["BLOCK_P"], tile["BLOCK_K"]
        batch, channels, height, width = x.shape
        pixels = height * width
        total = channels + sum(layer[2].out_channels for layer in self.layers)
        out = torch.empty((batch, total, height, width), device=x.device, dtype=x.dtype)
        moments = torch.empty((total, 3), device=x.device, dtype=torch.float32)
        blocks = triton.cdiv(pixels, 4096)
        parts = torch.empty((3, channels, batch * blocks), device=x.device, dtype=torch.float32)
        copy_kernel[(blocks, batch * channels)](
            x, out, *parts, channels, total, PIXELS=pixels, BLOCK=4096, num_warps=8
        )
        join(parts, moments, 0)
        # All images side by side, one column of zeros behind each and one row of them above and below.
        columns, bands = batch * (width + 1), triton.cdiv(height, ROWS)
        strips = triton.cdiv(columns, block_p)
        plane = ((bands * ROWS + 2) * columns + block_p + 2 * GUARD) * block_k
        if plane >= 2**31 or total * pixels >= 2**31:
            raise ValueError("this kernel is written for maps of less than 2^31 numbers")
        chunks = triton.cdiv(max(layer[2].in_channels for layer in self.layers), block_k)
        framed = torch.empty((chunks, 2, plane), device=x.device, dtype=torch.float16)
        for layer in self.layers:
            norm, conv = layer[0], layer[2]
            if not norm.training or norm.momentum is None or norm.running_mean is None:
                raise ValueError(
                    "this kernel is written for batch norms in training mode with running statistics"
                )
            channels, outs = conv.in_channels, conv.out_channels
            chunks, width_of_outs = triton.cdiv(channels, block_k), max(16, triton.next_power_of_2(outs))
            packed = torch.empty((chunks, 9, 2, width_of_outs, block_k), device=x.device, dtype=torch.float16)
            unscale = torch.empty(width_of_outs, device=x.device, dtype=torch.float32)
            pack_kernel[(width_of_outs,)](
                conv.weight,
                norm.weight,
                norm.bias,
                packed,
                unscale,
                outs,
                channels,
                float(batch * pixels),
                OUTS=width_of_outs,
                CHANNELS=triton.next_power_of_2(chunks * block_k),
                BLOCK_K=block_k,
                num_warps=4,
            )
            block_w = min(256, triton.next_power_of_2(width + 1))
            norm_kernel[(batch * (height + 2), triton.cdiv(width + 1, block_w), chunks)](
                out,
                moments,
                norm.weight,
                norm.bias,
                norm.running_mean,
                norm.running_var,
                norm.num_batches_tracked,
                framed,
                channels,
                total,
                columns,
                plane,
                float(batch * pixels),
                norm.eps,
                norm.momentum,
                HEIGHT=height,
                WIDTH=width,
                BLOCK_K=block_k,
                BLOCK_W=block_w,
                GUARD=GUARD,
                num_warps=4,
            )
            parts = torch.empty((3, outs, bands * strips), device=x.device, dtype=torch.float32)
            conv_kernel[(strips, bands)](
                framed,
                packed,
                unscale,
                out[:, channels:],
                *parts,
                outs,
                total,
                columns,
                plane,
                HEIGHT=height,
                WIDTH=width,
                CHUNKS=chunks,
                OUTS=width_of_outs,
                ROWS=ROWS,
                GUARD=GUARD,
                **tile,
            )
            join(parts, moments, channels)
        return out
