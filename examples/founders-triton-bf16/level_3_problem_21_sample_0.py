"""MBConv block in training mode: four passes over the maps, with every batch norm inside the next one.

The 1x1 convolutions and the depthwise one also compute the moments of what they write, and the following pass applies
norm and ReLU6 as it loads. So the wide maps are written once and read once, where eager PyTorch reads and writes them
several times. The expansion keeps its input on the multiprocessor for all its outputs. The depthwise convolution shares
what it loads and normalises between two neighbouring outputs in three rows.

Inputs, weights, maps and what is multiplied are bf16; sums and moments are fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "expand": {"BLOCK_P": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
    "depthwise": {"CHUNKS": 2, "ROWS": 14, "num_warps": 2},
    "project": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 4},
    "finish": {"BLOCK": 4096, "num_warps": 8},
}
TOP = 6.0
"""Where ReLU6 ends."""


@triton.jit
def write_moments(y, kept, count, mean_ptr, m2_ptr, count_ptr, slot, outs):
    """Mean and sum of squares around it of the rows of a tile; zeros are where nothing is."""
    mean = tl.sum(y, axis=1) / count
    rest = tl.where(kept[None, :], y - mean[:, None], 0.0)
    tl.store(mean_ptr + slot, mean, mask=outs)
    tl.store(m2_ptr + slot, tl.sum(rest * rest, axis=1), mask=outs)
    tl.store(count_ptr + slot, tl.zeros_like(mean) + count, mask=outs)


@triton.jit
def expand_kernel(
    x_ptr,
    weight_ptr,
    y_ptr,
    mean_ptr,
    m2_ptr,
    count_ptr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """A 1x1 convolution to many channels of some pixels, which stay here, and the moments of its result."""
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(1).to(tl.int64)
    x_ptr += sample * CHANNELS * PIXELS
    y_ptr += sample * OUTS * PIXELS
    depth = tl.arange(0, DEPTH)
    kept = pixel < PIXELS
    mask = (depth < CHANNELS)[:, None] & kept[None, :]
    x = tl.load(x_ptr + depth[:, None] * PIXELS + pixel[None, :], mask=mask, other=0.0)
    count = tl.minimum(PIXELS - tl.program_id(0) * BLOCK_P, BLOCK_P).to(tl.float32)
    slots = tl.num_programs(0) * tl.num_programs(1)
    slot = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    for start in range(0, OUTS, BLOCK_N):
        out = start + tl.arange(0, BLOCK_N)
        w_mask = (out < OUTS)[:, None] & (depth < CHANNELS)[None, :]
        w = tl.load(weight_ptr + out[:, None] * CHANNELS + depth[None, :], mask=w_mask, other=0.0)
        y = tl.dot(w, x)
        y = y.to(y_ptr.dtype.element_ty).to(tl.float32)  # the moments are those of what is written
        inside = (out < OUTS)[:, None] & kept[None, :]
        tl.store(y_ptr + out[:, None] * PIXELS + pixel[None, :], y, mask=inside)
        write_moments(y, kept, count, mean_ptr, m2_ptr, count_ptr, out * slots + slot, out < OUTS)


@triton.jit
def activate(x, scale, shift, inside, NORM: tl.constexpr, TOP: tl.constexpr):
    """Batch norm and ReLU6 inside, zero elsewhere."""
    if NORM:
        x = x * scale + shift
        x = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
        x = tl.minimum(x, TOP, propagate_nan=tl.PropagateNan.ALL)
        x = tl.where(inside, x, 0.0)
    return x


@triton.jit
def seven_columns(
    x_ptr,
    row,
    quad,
    scale,
    shift,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    NORM: tl.constexpr,
    TOP: tl.constexpr,
):
    """The columns from two before to four behind the first of every four."""
    CHUNKS: tl.constexpr = row.shape[0]
    BLOCK: tl.constexpr = quad.shape[1]
    here = (row >= 0) & (row < HEIGHT)
    four = (quad * 4)[:, :, None] + tl.arange(0, 4)[None, None, :]
    inside = here[:, :, None] & (four < WIDTH)
    x = tl.load(x_ptr + (row * WIDTH)[:, :, None] + four, mask=inside, other=0.0).to(tl.float32)
    x = activate(x, scale, shift, inside, NORM, TOP)
    even, odd = tl.split(tl.reshape(x, [CHUNKS, BLOCK, 2, 2]))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    two = (quad * 4)[:, :, None] + tl.arange(0, 2)[None, None, :] - 2
    inside = here[:, :, None] & (two >= 0) & (two < WIDTH)
    x = tl.load(x_ptr + (row * WIDTH)[:, :, None] + two, mask=inside, other=0.0).to(tl.float32)
    a, b = tl.split(activate(x, scale, shift, inside, NORM, TOP))
    inside = here & (quad * 4 + 4 < WIDTH)
    x = tl.load(x_ptr + row * WIDTH + quad * 4 + 4, mask=inside, other=0.0).to(tl.float32)
    return a, b, x0, x1, x2, x3, activate(x, scale, shift, inside, NORM, TOP)


@triton.jit
def five(weight_ptr):
    """A row of taps."""
    a = tl.load(weight_ptr).to(tl.float32)
    b = tl.load(weight_ptr + 1).to(tl.float32)
    c = tl.load(weight_ptr + 2).to(tl.float32)
    d = tl.load(weight_ptr + 3).to(tl.float32)
    return a, b, c, d, tl.load(weight_ptr + 4).to(tl.float32)


@triton.jit
def add_five(y, x0, x1, x2, x3, x4, w0, w1, w2, w3, w4):
    return y + x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3 + x4 * w4


@triton.jit
def depthwise_kernel(
    x_ptr,
    weight_ptr,
    scale_ptr,
    shift_ptr,
    y_ptr,
    mean_ptr,
    m2_ptr,
    count_ptr,
    channels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    NORM: tl.constexpr,
    TOP: tl.constexpr,
    CHUNKS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A depthwise convolution of 5 x 5 every 2 pixels, of the normalised input. It walks down the rows of a few stripes of
    a plane, with the three rows of the result that a row touches in registers; and the moments of its result."""
    plane = tl.program_id(1)
    channel = plane % channels
    x_ptr += plane.to(tl.int64) * HEIGHT * WIDTH
    y_ptr += plane.to(tl.int64) * OUT_HEIGHT * OUT_WIDTH
    weight_ptr += channel * 25
    first = ((tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)) * ROWS)[:, None]
    quad = tl.arange(0, BLOCK)[None, :]
    scale = 1.0
    shift = 0.0
    if NORM:
        scale = tl.load(scale_ptr + channel)
        shift = tl.load(shift_ptr + channel)
    a0, a1, a2, a3, a4 = five(weight_ptr)
    b0, b1, b2, b3, b4 = five(weight_ptr + 5)
    c0, c1, c2, c3, c4 = five(weight_ptr + 10)
    d0, d1, d2, d3, d4 = five(weight_ptr + 15)
    e0, e1, e2, e3, e4 = five(weight_ptr + 20)
    here_even = tl.zeros([CHUNKS, BLOCK], tl.float32)
    here_odd = tl.zeros([CHUNKS, BLOCK], tl.float32)
    above_even = tl.zeros([CHUNKS, BLOCK], tl.float32)
    above_odd = tl.zeros([CHUNKS, BLOCK], tl.float32)
    mean_even = tl.zeros([CHUNKS, BLOCK], tl.float32)
    mean_odd = tl.zeros([CHUNKS, BLOCK], tl.float32)
    m2_even = tl.zeros([CHUNKS, BLOCK], tl.float32)
    m2_odd = tl.zeros([CHUNKS, BLOCK], tl.float32)
    column = quad[:, :, None] * 2 + tl.arange(0, 2)[None, None, :]
    for step in range(ROWS + 2):
        row = (first + step) * 2 - 2
        x0, x1, x2, x3, x4, x5, x6 = seven_columns(x_ptr, row, quad, scale, shift, HEIGHT, WIDTH, NORM, TOP)
        below_even = add_five(tl.zeros([CHUNKS, BLOCK], tl.float32), x0, x1, x2, x3, x4, a0, a1, a2, a3, a4)
        below_odd = add_five(tl.zeros([CHUNKS, BLOCK], tl.float32), x2, x3, x4, x5, x6, a0, a1, a2, a3, a4)
        here_even = add_five(here_even, x0, x1, x2, x3, x4, c0, c1, c2, c3, c4)
        here_odd = add_five(here_odd, x2, x3, x4, x5, x6, c0, c1, c2, c3, c4)
        above_even = add_five(above_even, x0, x1, x2, x3, x4, e0, e1, e2, e3, e4)
        above_odd = add_five(above_odd, x2, x3, x4, x5, x6, e0, e1, e2, e3, e4)
        x0, x1, x2, x3, x4, x5, x6 = seven_columns(
            x_ptr, row + 1, quad, scale, shift, HEIGHT, WIDTH, NORM, TOP
        )
        below_even = add_five(below_even, x0, x1, x2, x3, x4, b0, b1, b2, b3, b4)
        below_odd = add_five(below_odd, x2, x3, x4, x5, x6, b0, b1, b2, b3, b4)
        here_even = add_five(here_even, x0, x1, x2, x3, x4, d0, d1, d2, d3, d4)
        here_odd = add_five(here_odd, x2, x3, x4, x5, x6, d0, d1, d2, d3, d4)
        out_row = first + step - 2
        kept = (step >= 2) & (out_row < OUT_HEIGHT)
        offsets = (out_row * OUT_WIDTH)[:, :, None] + column
        above_even = above_even.to(y_ptr.dtype.element_ty).to(tl.float32)
        above_odd = above_odd.to(y_ptr.dtype.element_ty).to(tl.float32)
        y = tl.join(above_even, above_odd)
        tl.store(y_ptr + offsets, y, mask=kept[:, :, None] & (column < OUT_WIDTH))
        part = 1.0 / tl.maximum(step - 1, 1).to(tl.float32)
        delta = tl.where(kept & (quad * 2 < OUT_WIDTH), above_even - mean_even, 0.0)
        mean_even += delta * part
        m2_even += delta * (above_even - mean_even)
        delta = tl.where(kept & (quad * 2 + 1 < OUT_WIDTH), above_odd - mean_odd, 0.0)
        mean_odd += delta * part
        m2_odd += delta * (above_odd - mean_odd)
        above_even = here_even
        above_odd = here_odd
        here_even = below_even
        here_odd = below_odd
    rows = tl.maximum(tl.minimum(OUT_HEIGHT - first, ROWS), 0).to(tl.float32)
    count_even = rows * tl.where(quad * 2 < OUT_WIDTH, 1.0, 0.0)
    count_odd = rows * tl.where(quad * 2 + 1 < OUT_WIDTH, 1.0, 0.0)
    total = tl.sum(tl.sum(count_even + count_odd, axis=1), axis=0)
    center = tl.sum(tl.sum(count_even * mean_even + count_odd * mean_odd, axis=1), axis=0)
    center /= tl.maximum(total, 1.0)
    spread = m2_even + count_even * (mean_even - center) * (mean_even - center)
    spread += m2_odd + count_odd * (mean_odd - center) * (mean_odd - center)
    slots = tl.num_programs(1) // channels * tl.num_programs(0)
    slot = channel * slots + plane // channels * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, center)
    tl.store(m2_ptr + slot, tl.sum(tl.sum(spread, axis=1), axis=0))
    tl.store(count_ptr + slot, total)


@triton.jit
def project_kernel(
    x_ptr,
    weight_ptr,
    scale_ptr,
    shift_ptr,
    y_ptr,
    mean_ptr,
    m2_ptr,
    count_ptr,
    PIXELS: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    TOP: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A 1x1 convolution of the normalised input, and the moments of every tile of its result."""
    tiles: tl.constexpr = (OUTS + BLOCK_N - 1) // BLOCK_N
    out = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    block = tl.program_id(0) // tiles
    pixel = block * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(1).to(tl.int64)
    x_ptr += sample * CHANNELS * PIXELS
    y_ptr += sample * OUTS * PIXELS
    depth = tl.arange(0, BLOCK_K)
    kept = pixel < PIXELS
    y = tl.zeros([BLOCK_N, BLOCK_P], tl.float32)
    for start in range(0, CHANNELS, BLOCK_K):
        channel = start + depth
        within = channel < CHANNELS
        mask = within[:, None] & kept[None, :]
        x = tl.load(x_ptr + channel[:, None] * PIXELS + pixel[None, :], mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + channel, mask=within, other=0.0)[:, None]
        shift = tl.load(shift_ptr + channel, mask=within, other=0.0)[:, None]
        x = activate(x, scale, shift, mask, True, TOP)
        w_mask = (out < OUTS)[:, None] & within[None, :]
        w = tl.load(weight_ptr + out[:, None] * CHANNELS + channel[None, :], mask=w_mask, other=0.0)
        y = tl.dot(w, x.to(w.dtype), y)
    y = y.to(y_ptr.dtype.element_ty).to(tl.float32)
    y = tl.where(kept[None, :], y, 0.0)
    inside = (out < OUTS)[:, None] & kept[None, :]
    tl.store(y_ptr + out[:, None] * PIXELS + pixel[None, :], y, mask=inside)
    count = tl.minimum(PIXELS - block * BLOCK_P, BLOCK_P).to(tl.float32)
    blocks = tl.num_programs(0) // tiles
    slot = out * (blocks * tl.num_programs(1)) + tl.program_id(1) * blocks + block
    write_moments(y, kept, count, mean_ptr, m2_ptr, count_ptr, slot, out < OUTS)


@triton.jit
def join_kernel(
    mean_ptr,
    m2_ptr,
    count_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    scale_ptr,
    shift_ptr,
    slots,
    eps,
    momentum,
    BLOCK: tl.constexpr,
):
    """Join the moments of a channel's parts to its batch norm, and update the running statistics."""
    channel = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < slots
    means = tl.load(mean_ptr + channel * slots + lanes, mask=mask, other=0.0)
    m2 = tl.load(m2_ptr + channel * slots + lanes, mask=mask, other=0.0)
    counts = tl.load(count_ptr + channel * slots + lanes, mask=mask, other=0.0)
    count = tl.sum(counts, axis=0)
    mean = tl.sum(counts * means, axis=0) / count
    total = tl.sum(m2 + counts * (means - mean) * (means - mean), axis=0)
    scale = tl.load(weight_ptr + channel).to(tl.float32) / tl.sqrt(total / count + eps)
    tl.store(scale_ptr + channel, scale)
    tl.store(shift_ptr + channel, tl.load(bias_ptr + channel).to(tl.float32) - mean * scale)
    old_mean = tl.load(running_mean_ptr + channel).to(tl.float32)
    old_var = tl.load(running_var_ptr + channel).to(tl.float32)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + channel, old_var + momentum * (total / (count - 1) - old_var))
    if channel == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def finish_kernel(y_ptr, scale_ptr, shift_ptr, channels, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """The last batch norm in place."""
    blocks = tl.cdiv(PIXELS, BLOCK)
    plane = tl.program_id(0) // blocks
    channel = plane % channels
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < PIXELS
    offsets = plane.to(tl.int64) * PIXELS + columns
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32)
    y = y * tl.load(scale_ptr + channel) + tl.load(shift_ptr + channel)
    tl.store(y_ptr + offsets, y, mask=mask)


def join(moments: torch.Tensor, bn: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of a batch norm in training mode, one of each a channel; updates the running statistics."""
    if not bn.training or bn.momentum is None or bn.running_mean is None:
        raise ValueError(
            "this kernel is written for batch norms in training mode with usual running statistics"
        )
    _, channels, slots = moments.shape
    scale, shift = torch.empty((2, channels), device=moments.device, dtype=torch.float32)
    block = triton.next_power_of_2(slots)
    join_kernel[(channels,)](
        *moments,
        bn.weight,
        bn.bias,
        bn.running_mean,
        bn.running_var,
        bn.num_batches_tracked,
        scale,
        shift,
        slots,
        bn.eps,
        bn.momentum,
        BLOCK=block,
        num_warps=4 if block <= 2048 else 8,
    )
    return scale, shift


def expand(
    x: torch.Tensor, conv: nn.Conv2d, bn: nn.BatchNorm2d
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A 1x1 convolution; returns its result and the scale and shift of its batch norm."""
    tile = TILE["expand"]
    batch, channels, height, width = x.shape
    outs, pixels = conv.out_channels, height * width
    depth = max(16, triton.next_power_of_2(channels))
    blocks = triton.cdiv(pixels, tile["BLOCK_P"])
    y = torch.empty((batch, outs, height, width), device=x.device, dtype=x.dtype)
    moments = torch.empty((3, outs, batch * blocks), device=x.device, dtype=torch.float32)
    expand_kernel[(blocks, batch)](
        x,
        conv.weight,
        y,
        *moments,
        PIXELS=pixels,
        CHANNELS=channels,
        OUTS=outs,
        DEPTH=depth,
        **tile,
    )
    return y, join(moments, bn)


def depthwise(
    x: torch.Tensor,
    conv: nn.Conv2d,
    bn: nn.BatchNorm2d,
    norm: tuple[torch.Tensor, torch.Tensor] | None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A depthwise convolution of ReLU6(x * scale + shift); returns its result and the scale and shift of its norm."""
    tile = TILE["depthwise"]
    batch, channels, height, width = x.shape
    out_height, out_width = ((side - 1) // 2 + 1 for side in (height, width))
    y = torch.empty((batch, channels, out_height, out_width), device=x.device, dtype=x.dtype)
    programs = triton.cdiv(out_height, tile["CHUNKS"] * tile["ROWS"])
    moments = torch.empty((3, channels, batch * programs), device=x.device, dtype=torch.float32)
    depthwise_kernel[(programs, batch * channels)](
        x,
        conv.weight,
        *(norm or (x, x)),
        y,
        *moments,
        channels,
        HEIGHT=height,
        WIDTH=width,
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        NORM=norm is not None,
        TOP=TOP,
        BLOCK=triton.next_power_of_2(triton.cdiv(out_width, 2)),
        **tile,
    )
    return y, join(moments, bn)


def project(
    x: torch.Tensor, conv: nn.Conv2d, bn: nn.BatchNorm2d, norm: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A 1x1 convolution of ReLU6(x * scale + shift); returns its result and the scale and shift of its batch norm."""
    tile = TILE["project"]
    batch, channels, height, width = x.shape
    outs, pixels = conv.out_channels, height * width
    blocks = triton.cdiv(pixels, tile["BLOCK_P"])
    y = torch.empty((batch, outs, height, width), device=x.device, dtype=x.dtype)
    moments = torch.empty((3, outs, batch * blocks), device=x.device, dtype=torch.float32)
    project_kernel[(blocks * triton.cdiv(outs, tile["BLOCK_N"]), batch)](
        x,
        conv.weight,
        *norm,
        y,
        *moments,
        PIXELS=pixels,
        CHANNELS=channels,
        OUTS=outs,
        TOP=TOP,
        **tile,
    )
    return y, join(moments, bn)


def finish_(y: torch.Tensor, norm: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """y * scale + shift in place of y."""
    channels, pixels = y.shape[1], y.shape[2] * y.shape[3]
    tile = TILE["finish"]
    finish_kernel[(y.shape[0] * channels * triton.cdiv(pixels, tile["BLOCK"]),)](
        y, *norm, channels, PIXELS=pixels, **tile
    )
    return y


class ModelNew(nn.Module):
    """An MBConv block: expand, filter depthwise, project, and add the input if shapes match."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio):
        super().__init__()
        self.use_residual = stride == 1 and in_channels == out_channels
        hidden = in_channels * expand_ratio
        if expand_ratio != 1:
            self.expand_conv = nn.Sequential(
                nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
                nn.BatchNorm2d(hidden),
                nn.ReLU6(inplace=True),
            )
        padding = (kernel_size - 1) // 2
        self.depthwise_conv = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel_size, stride, padding, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
        )
        self.project_conv = nn.Sequential(
            nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        if kernel_size != 5 or stride != 2:
            raise ValueError("this kernel is written for windows of 5 x 5 every two pixels")
        if in_channels > 256:
            raise ValueError("this kernel is written for up to 256 channels")

    def forward(self, x):
        x = x.contiguous()
        out, norm = x, None
        if hasattr(self, "expand_conv"):
            out, norm = expand(x, self.expand_conv[0], self.expand_conv[1])
        out, norm = depthwise(out, self.depthwise_conv[0], self.depthwise_conv[1], norm)
        out, norm = project(out, self.project_conv[0], self.project_conv[1], norm)
        return finish_(out, norm)
