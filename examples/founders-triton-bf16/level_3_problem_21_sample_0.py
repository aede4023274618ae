"""MBConv block in training mode: four passes over the maps, with every batch norm inside the next one.

The 1x1 convolutions and the depthwise one also compute the moments of what they write, and the following pass applies
norm and ReLU6 as it loads. So the wide maps are written once and read once, where eager PyTorch reads and writes them
several times.

Inputs, weights, maps and what is multiplied are bf16; sums and moments are fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "expand": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 16, "num_warps": 8, "num_stages": 4},
    "depthwise": {"CHUNKS": 4, "ROWS": 28, "num_warps": 2},
    "project": {"BLOCK_P": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 4},
    "finish": {"BLOCK": 4096, "num_warps": 8},
}


@triton.jit
def pointwise_kernel(
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
    GROUPS: tl.constexpr,
    SHUFFLE: tl.constexpr,
    NORM: tl.constexpr,
    TOP: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A 1x1 convolution of the normalised input, and the moments of every tile of its result."""
    depth_of_group: tl.constexpr = CHANNELS // GROUPS
    outs_of_group: tl.constexpr = OUTS // GROUPS
    tiles: tl.constexpr = (outs_of_group + BLOCK_N - 1) // BLOCK_N
    group = tl.program_id(0) // tiles
    out = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = tl.program_id(2).to(tl.int64)
    x_ptr += sample * CHANNELS * PIXELS
    y_ptr += (sample * OUTS + group * outs_of_group) * PIXELS
    weight_ptr += group * outs_of_group * depth_of_group
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for start in range(0, depth_of_group, BLOCK_K):
        inner = start + depth
        source = group * depth_of_group + inner
        if SHUFFLE > 1:
            source = source % SHUFFLE * (CHANNELS // SHUFFLE) + source // SHUFFLE
        within = inner < depth_of_group
        mask = (pixel < PIXELS)[:, None] & within[None, :]
        x = tl.load(x_ptr + source[None, :] * PIXELS + pixel[:, None], mask=mask, other=0.0)
        if NORM:
            x = x.to(tl.float32) * tl.load(scale_ptr + source, mask=within, other=0.0)[None, :]
            x += tl.load(shift_ptr + source, mask=within, other=0.0)[None, :]
            if TOP > 0:
                x = tl.where(x < 0.0, 0.0, x)
                x = tl.where(x > TOP, TOP, x)
            x = tl.where(mask, x, 0.0)
        w_mask = (out < outs_of_group)[:, None] & within[None, :]
        w_ptrs = weight_ptr + out[:, None] * depth_of_group + inner[None, :]
        w = tl.load(w_ptrs, mask=w_mask, other=0.0)
        y = tl.dot(x.to(w.dtype), tl.trans(w), y)
    y = y.to(y_ptr.dtype.element_ty).to(tl.float32)  # the moments are those of what is written
    inside = (pixel < PIXELS)[:, None]
    kept = out < outs_of_group
    tl.store(y_ptr + out[None, :] * PIXELS + pixel[:, None], y, mask=inside & kept[None, :])
    count = tl.minimum(PIXELS - tl.program_id(1) * BLOCK_P, BLOCK_P).to(tl.float32)
    mean = tl.sum(tl.where(inside, y, 0.0), axis=0) / count
    rest = tl.where(inside, y - mean[None, :], 0.0)
    slots = tl.num_programs(1) * tl.num_programs(2)
    slot = (group * outs_of_group + out) * slots + tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    tl.store(mean_ptr + slot, mean, mask=kept)
    tl.store(m2_ptr + slot, tl.sum(rest * rest, axis=0), mask=kept)
    tl.store(count_ptr + slot, tl.zeros([BLOCK_N], tl.float32) + count, mask=kept)


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
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    NORM: tl.constexpr,
    TOP: tl.constexpr,
    CHUNKS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A depthwise convolution of the normalised input that walks down the rows of a few stripes of a plane, with the
    three rows of the result that a row touches in registers; and the moments of its result."""
    plane = tl.program_id(1)
    channel = plane % channels
    x_ptr += plane.to(tl.int64) * HEIGHT * WIDTH
    y_ptr += plane.to(tl.int64) * OUT_HEIGHT * OUT_WIDTH
    weight_ptr += channel * SIZE * SIZE
    first = ((tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)) * ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    scale = 1.0
    shift = 0.0
    if NORM:
        scale = tl.load(scale_ptr + channel)
        shift = tl.load(shift_ptr + channel)
    here = tl.zeros([CHUNKS, BLOCK], tl.float32)
    above = tl.zeros([CHUNKS, BLOCK], tl.float32)
    mean = tl.zeros([CHUNKS, BLOCK], tl.float32)
    m2 = tl.zeros([CHUNKS, BLOCK], tl.float32)
    count = tl.zeros([CHUNKS, BLOCK], tl.float32)
    for step in range(ROWS + 2):
        below = tl.zeros([CHUNKS, BLOCK], tl.float32)
        for part in tl.static_range(STRIDE):
            row = (first + step) * STRIDE + part - PADDING
            for tap in tl.static_range(SIZE):
                index = column * STRIDE + tap - PADDING
                inside = (row >= 0) & (row < HEIGHT) & (index >= 0) & (index < WIDTH)
                x = tl.load(x_ptr + row * WIDTH + index, mask=inside, other=0.0).to(tl.float32)
                if NORM:
                    x = x * scale + shift
                    if TOP > 0:
                        x = tl.where(x < 0.0, 0.0, x)
                        x = tl.where(x > TOP, TOP, x)
                    x = tl.where(inside, x, 0.0)
                below += x * tl.load(weight_ptr + part * SIZE + tap).to(tl.float32)
                if STRIDE + part < SIZE:
                    here += x * tl.load(weight_ptr + (STRIDE + part) * SIZE + tap).to(tl.float32)
                if 2 * STRIDE + part < SIZE:
                    above += x * tl.load(weight_ptr + (2 * STRIDE + part) * SIZE + tap).to(tl.float32)
        out_row = first + step - 2
        kept = (step >= 2) & (out_row < OUT_HEIGHT) & (column < OUT_WIDTH)
        above = above.to(y_ptr.dtype.element_ty).to(tl.float32)
        tl.store(y_ptr + out_row * OUT_WIDTH + column, above, mask=kept)
        delta = tl.where(kept, above - mean, 0.0)
        mean += delta * (1.0 / tl.maximum(step - 1, 1).to(tl.float32))
        m2 += delta * (above - mean)
        count += tl.where(kept, 1.0, 0.0)
        above = here
        here = below
    total = tl.sum(tl.sum(count, axis=1), axis=0)
    center = tl.sum(tl.sum(count * mean, axis=1), axis=0) / tl.maximum(total, 1.0)
    spread = tl.sum(tl.sum(m2 + count * (mean - center) * (mean - center), axis=1), axis=0)
    slots = tl.num_programs(1) // channels * tl.num_programs(0)
    slot = channel * slots + plane // channels * tl.num_programs(0) + tl.program_id(0)
    tl.store(mean_ptr + slot, center)
    tl.store(m2_ptr + slot, spread)
    tl.store(count_ptr + slot, total)


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
def finish_kernel(
    y_ptr,
    scale_ptr,
    shift_ptr,
    other_ptr,
    other_scale_ptr,
    other_shift_ptr,
    channels,
    PIXELS: tl.constexpr,
    RELU: tl.constexpr,
    OTHER: tl.constexpr,
    OTHER_NORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The last batch norm in place, with ReLU and the sum with a shortcut if asked for."""
    blocks = tl.cdiv(PIXELS, BLOCK)
    plane = tl.program_id(0) // blocks
    channel = plane % channels
    columns = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < PIXELS
    offsets = plane.to(tl.int64) * PIXELS + columns
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.float32) * tl.load(scale_ptr + channel) + tl.load(
        shift_ptr + channel
    )
    if RELU:
        y = tl.where(y < 0.0, 0.0, y)
    if OTHER:
        other = tl.load(other_ptr + offsets, mask=mask).to(tl.float32)
        if OTHER_NORM:
            other = other * tl.load(other_scale_ptr + channel) + tl.load(other_shift_ptr + channel)
        y += other
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


def pointwise(
    x: torch.Tensor,
    conv: nn.Conv2d,
    bn: nn.BatchNorm2d,
    norm: tuple[torch.Tensor, torch.Tensor] | None,
    top: float,
    tile: dict,
    shuffle: int = 1,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A 1x1 convolution of act(x * scale + shift); returns its result and the scale and shift of its batch norm."""
    batch, channels, height, width = x.shape
    outs, pixels = conv.out_channels, height * width
    tiles = triton.cdiv(pixels, tile["BLOCK_P"])
    y = torch.empty((batch, outs, height, width), device=x.device, dtype=x.dtype)
    moments = torch.empty((3, outs, batch * tiles), device=x.device, dtype=torch.float32)
    pointwise_kernel[(conv.groups * triton.cdiv(outs // conv.groups, tile["BLOCK_N"]), tiles, batch)](
        x,
        conv.weight.contiguous(),
        *(norm or (x, x)),
        y,
        *moments,
        PIXELS=pixels,
        CHANNELS=channels,
        OUTS=outs,
        GROUPS=conv.groups,
        SHUFFLE=shuffle,
        NORM=norm is not None,
        TOP=top,
        **tile,
    )
    return y, join(moments, bn)


def depthwise(
    x: torch.Tensor,
    conv: nn.Conv2d,
    bn: nn.BatchNorm2d,
    norm: tuple[torch.Tensor, torch.Tensor] | None,
    top: float,
    tile: dict,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """A depthwise convolution of act(x * scale + shift); returns its result and the scale and shift of its norm."""
    batch, channels, height, width = x.shape
    size, stride, padding = conv.kernel_size[0], conv.stride[0], conv.padding[0]
    out_height, out_width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
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
        SIZE=size,
        STRIDE=stride,
        PADDING=padding,
        NORM=norm is not None,
        TOP=top,
        BLOCK=triton.next_power_of_2(out_width),
        **tile,
    )
    return y, join(moments, bn)


def finish_(
    y: torch.Tensor,
    norm: tuple[torch.Tensor, torch.Tensor],
    relu: bool,
    other: torch.Tensor | None,
    other_norm: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """act(y * scale + shift), plus the other with its own norm, in place of y."""
    channels, pixels = y.shape[1], y.shape[2] * y.shape[3]
    tile = TILE["finish"]
    finish_kernel[(y.shape[0] * channels * triton.cdiv(pixels, tile["BLOCK"]),)](
        y,
        *norm,
        y if other is None else other,
        *(other_norm or norm),
        channels,
        PIXELS=pixels,
        RELU=relu,
        OTHER=other is not None,
        OTHER_NORM=other_norm is not None,
        **tile,
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
        if not stride <= kernel_size <= 3 * stride:
            raise ValueError("this kernel is written for rows that touch up to three rows of the result")

    def forward(self, x):
        x = x.contiguous()
        out, norm = x, None
        if hasattr(self, "expand_conv"):
            out, norm = pointwise(x, self.expand_conv[0], self.expand_conv[1], None, 0.0, TILE["expand"])
        out, norm = depthwise(
            out, self.depthwise_conv[0], self.depthwise_conv[1], norm, 6.0, TILE["depthwise"]
        )
        out, norm = pointwise(out, self.project_conv[0], self.project_conv[1], norm, 6.0, TILE["project"])
        return finish_(out, norm, False, x if self.use_residual else None, None)
