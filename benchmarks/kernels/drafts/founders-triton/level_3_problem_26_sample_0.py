"""ShuffleNet with channels last from end to end, as cuDNN convolves fastest.

The depthwise convolution applies the batch norm and ReLU before it as it loads and takes its own result's statistics;
other statistics take one read, and a last pass normalises, applies ReLU and adds the shortcut, in place. The 1x1
convolutions in groups may be taken as one with zeros between the groups.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {
    "PIXELS": 64,
    "PART": 32,
    "SLOTS": 528,
    "POOLED": 32,
    "DEPTHWISE": 32,
    "DENSE": False,
    "num_warps": 4,
}
"""A tile's pixels where it normalises, takes statistics, pools (those of the result), and convolves; the parts that
statistics are taken in; whether groups are multiplied as one."""


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
def update_running(
    c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P: tl.constexpr, MOMENTUM: tl.constexpr
):
    """The running statistics of some channels, and the number of batches by the first program."""
    old_mean = tl.load(mean_ptr + c, mask=kept)
    old_var = tl.load(var_ptr + c, mask=kept)
    tl.store(mean_ptr + c, old_mean + MOMENTUM * (mean - old_mean), mask=kept)
    tl.store(var_ptr + c, old_var + MOMENTUM * (m2 / (P - 1) - old_var), mask=kept)
    if tl.program_id(0) == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def moments_kernel(
    x_ptr, parts_ptr, C: tl.constexpr, P: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Mean, sum of squares around it, and count of every so many tiles, by Welford's update: [3, parts, C]."""
    slot, slots = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    count = tl.zeros([BLOCK_P, 1], tl.float32)
    mean = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    m2 = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    step = 0.0
    for _ in range(tl.cdiv(P, slots * BLOCK_P)):
        there = (p < P) & (c < C)[None, :]
        x = tl.load(x_ptr + p.to(tl.int64) * C + c[None, :], mask=there, other=0.0)
        step += 1.0
        delta = tl.where(there, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(p < P, 1.0, 0.0)
        p += slots * BLOCK_P
    total = tl.sum(tl.sum(count, axis=1), axis=0)
    center = tl.sum(count * mean, axis=0) / total
    m2 = tl.sum(m2 + count * (mean - center[None, :]) * (mean - center[None, :]), axis=0)
    at = parts_ptr + slot * C + c
    tl.store(at, center, mask=c < C)
    tl.store(at + slots * C, m2, mask=c < C)
    tl.store(at + 2 * slots * C, tl.zeros([BLOCK_C], tl.float32) + total, mask=c < C)


@triton.jit
def join_kernel(
    parts_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    fold_ptr,
    slots,
    C: tl.constexpr,
    P: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The parts' moments into the scale and shift of a batch norm."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    kept = c < C
    mean = tl.zeros([BLOCK_C], tl.float32)
    m2 = tl.zeros([BLOCK_C], tl.float32)
    for start in range(0, slots, BLOCK):
        slot = start + tl.arange(0, BLOCK)[:, None]
        at = parts_ptr + slot * C + c[None, :]
        there = (slot < slots) & kept[None, :]
        means = tl.load(at, mask=there, other=0.0)
        counts = tl.load(at + 2 * slots * C, mask=there, other=0.0)
        mean += tl.sum(counts * means, axis=0) / P
    for start in range(0, slots, BLOCK):
        slot = start + tl.arange(0, BLOCK)[:, None]
        at = parts_ptr + slot * C + c[None, :]
        there = (slot < slots) & kept[None, :]
        rest = tl.load(at, mask=there, other=0.0) - mean[None, :]
        counts = tl.load(at + 2 * slots * C, mask=there, other=0.0)
        m2 += tl.sum(tl.load(at + slots * C, mask=there, other=0.0) + counts * rest * rest, axis=0)
    update_running(c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P, MOMENTUM)
    scale = tl.load(weight_ptr + c, mask=kept) / tl.sqrt(m2 / P + EPS)
    tl.store(fold_ptr + c, scale, mask=kept)
    tl.store(fold_ptr + C + c, tl.load(bias_ptr + c, mask=kept) - mean * scale, mask=kept)


@triton.jit
def depthwise_kernel(
    x_ptr,
    fold_ptr,
    weight_ptr,
    y_ptr,
    parts_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """A depthwise convolution of ReLU of the normalised x, and the moments of a tile of its result."""
    slot, slots = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    kept = c < C
    there = (p < P) & kept
    scale = tl.load(fold_ptr + c, mask=kept)
    shift = tl.load(fold_ptr + C + c, mask=kept)
    row, column = p // WIDTH % HEIGHT - PADDING, p % WIDTH - PADDING
    at = x_ptr + (p.to(tl.int64) - PADDING * WIDTH - PADDING) * C + c
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            inside = (row + i >= 0) & (row + i < HEIGHT) & (column + j >= 0) & (column + j < WIDTH) & there
            x = tl.load(at + (i * WIDTH + j) * C, mask=inside, other=0.0) * scale + shift
            x = tl.where(inside & ~(x < 0.0), x, 0.0)
            y += x * tl.load(weight_ptr + c * SIZE * SIZE + i * SIZE + j, mask=kept, other=0.0)
    tl.store(y_ptr + p.to(tl.int64) * C + c, y, mask=there)
    count = tl.minimum(P - slot * BLOCK_P, BLOCK_P).to(tl.float32)
    mean = tl.sum(tl.where(there, y, 0.0), axis=0)[None, :] / count
    rest = tl.where(there, y - mean, 0.0)
    m2 = tl.sum(rest * rest, axis=0)[None, :]
    at = parts_ptr + slot * C + c
    tl.store(at, mean, mask=kept)
    tl.store(at + slots * C, m2, mask=kept)
    tl.store(at + 2 * slots * C, tl.zeros([1, BLOCK_C], tl.float32) + count, mask=kept)


@triton.jit
def shuffle_kernel(
    x_ptr,
    fold_ptr,
    y_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm, and the groups' channels in turn."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    kept = c < C
    there = (p < P) & kept
    origin = c % GROUPS * (C // GROUPS) + c // GROUPS
    row = p.to(tl.int64) * C
    x = tl.load(x_ptr + row + origin, mask=there)
    x = x * tl.load(fold_ptr + origin, mask=kept) + tl.load(fold_ptr + C + origin, mask=kept)
    tl.store(y_ptr + row + c, x, mask=there)


@triton.jit
def sum_kernel(
    x_ptr,
    fold_ptr,
    other_ptr,
    other_fold_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    NORMS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """ReLU of the normalised x, plus the other, which is normalised too where there are two norms; in place of x."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    kept = c < C
    there = (p < P) & kept
    offsets = p.to(tl.int64) * C + c
    x = tl.load(x_ptr + offsets, mask=there)
    x = x * tl.load(fold_ptr + c, mask=kept) + tl.load(fold_ptr + C + c, mask=kept)
    other = tl.load(other_ptr + offsets, mask=there)
    if NORMS == 2:
        other = other * tl.load(other_fold_ptr + c, mask=kept) + tl.load(other_fold_ptr + C + c, mask=kept)
    tl.store(x_ptr + offsets, tl.where(x < 0.0, 0.0, x) + other, mask=there)


@triton.jit
def norm_mean_kernel(
    x_ptr, fold_ptr, y_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr
):
    """Batch norm, ReLU, and the mean over an image's pixels."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    kept = c < C
    x_ptr += tl.program_id(0).to(tl.int64) * S * C
    scale = tl.load(fold_ptr + c, mask=kept)
    shift = tl.load(fold_ptr + C + c, mask=kept)
    total = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)[:, None]
        there = (s < S) & kept
        x = tl.load(x_ptr + s * C + c, mask=there, other=0.0) * scale + shift
        total += tl.where(there & ~(x < 0.0), x, 0.0)
    mean = tl.sum(total, axis=0)[None, :] / S
    tl.store(y_ptr + tl.program_id(0) * C + c, mean, mask=kept)


@triton.jit
def dense_kernel(
    weight_ptr, dense_ptr, OUTS: tl.constexpr, C: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """A convolution's weights in groups, with zeros between the groups."""
    own: tl.constexpr = C // GROUPS
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out, c = at // C, at % C
    there = at < OUTS * C
    same = out // (OUTS // GROUPS) == c // own
    tl.store(
        dense_ptr + at, tl.load(weight_ptr + out * own + c % own, mask=there & same, other=0.0), mask=there
    )


@triton.jit
def norm_pool_kernel(
    x_ptr,
    fold_ptr,
    y_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm, ReLU and max pooling; zero stands for what is outside, since ReLU gives no less."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    there = (p < P) & (c < C)
    scale = tl.load(fold_ptr + c, mask=c < C)
    shift = tl.load(fold_ptr + C + c, mask=c < C)
    image = p // (OUT_HEIGHT * OUT_WIDTH)
    row = p // OUT_WIDTH % OUT_HEIGHT * STRIDE - PADDING
    column = p % OUT_WIDTH * STRIDE - PADDING
    at = x_ptr + ((image.to(tl.int64) * HEIGHT + row) * WIDTH + column) * C + c
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            inside = (row + i >= 0) & (row + i < HEIGHT) & (column + j >= 0) & (column + j < WIDTH) & there
            x = tl.load(at + (i * WIDTH + j) * C, mask=inside, other=0.0) * scale + shift
            y = tl.maximum(y, tl.where(inside, x, 0.0), propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + p.to(tl.int64) * C + c, y, mask=there)


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


def convolve(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """A convolution from channels last to channels last."""
    weight, groups = conv.weight, conv.groups
    if groups > 1 and TILE["DENSE"]:
        outs, channels = conv.out_channels, conv.in_channels
        dense = torch.empty((outs, channels, 1, 1), device=x.device, dtype=x.dtype)
        dense_kernel[(triton.cdiv(outs * channels, 1024),)](
            weight, dense, OUTS=outs, C=channels, GROUPS=groups, BLOCK=1024, num_warps=4
        )
        weight, groups = dense, 1
    y = F.conv2d(x, weight, None, conv.stride, conv.padding, 1, groups)
    return y.contiguous(memory_format=torch.channels_last)


def grid_of(x: torch.Tensor, block_p: int) -> tuple[tuple[int, int], dict]:
    """A grid over tiles of pixels and channels, and what the kernels need to know of it."""
    channels = x.shape[1]
    pixels, block_c = x.numel() // channels, min(64, triton.next_power_of_2(channels))
    sizes = {
        "C": channels,
        "P": pixels,
        "BLOCK_P": block_p,
        "BLOCK_C": block_c,
        "num_warps": TILE["num_warps"],
    }
    return (triton.cdiv(pixels, block_p), triton.cdiv(channels, block_c)), sizes


def join(parts: torch.Tensor, pixels: int, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Scale and shift, [2, C], of a batch norm in training mode; updates the running statistics."""
    _, slots, channels = parts.shape
    folded = torch.empty((2, channels), device=parts.device, dtype=torch.float32)
    join_kernel[(triton.cdiv(channels, 4),)](
        parts,
        bn.weight,
        bn.bias,
        bn.running_mean,
        bn.running_var,
        bn.num_batches_tracked,
        folded,
        slots,
        C=channels,
        P=pixels,
        EPS=bn.eps,
        MOMENTUM=bn.momentum,
        BLOCK=min(1024, triton.next_power_of_2(slots)),
        BLOCK_C=4,
        num_warps=4,
    )
    return folded


def fold(x: torch.Tensor, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Scale and shift of a batch norm of x."""
    (tiles, blocks), sizes = grid_of(x, TILE["PART"])
    slots = min(TILE["SLOTS"], tiles)
    parts = torch.empty((3, slots, x.shape[1]), device=x.device, dtype=torch.float32)
    moments_kernel[(slots, blocks)](x, parts, **sizes)
    return join(parts, sizes["P"], bn)


def depthwise(
    x: torch.Tensor, folded: torch.Tensor, conv: nn.Conv2d, bn: nn.BatchNorm2d
) -> tuple[torch.Tensor, torch.Tensor]:
    """A depthwise convolution of ReLU of the normalised x, as large as x; the scale and shift of its own norm."""
    grid, sizes = grid_of(x, TILE["DEPTHWISE"])
    y = torch.empty_like(x)
    parts = torch.empty((3, grid[0], x.shape[1]), device=x.device, dtype=torch.float32)
    depthwise_kernel[grid](
        x,
        folded,
        conv.weight,
        y,
        parts,
        HEIGHT=x.shape[2],
        WIDTH=x.shape[3],
        SIZE=conv.kernel_size[0],
        PADDING=conv.padding[0],
        **sizes,
    )
    return y, join(parts, sizes["P"], bn)


def shuffled(x: torch.Tensor, folded: torch.Tensor, groups: int) -> torch.Tensor:
    """The normalised x with the groups' channels in turn."""
    grid, sizes = grid_of(x, TILE["PIXELS"])
    y = torch.empty_like(x)
    shuffle_kernel[grid](x, folded, y, GROUPS=groups, **sizes)
    return y


def relu_sum_(
    x: torch.Tensor, folded: torch.Tensor, other: torch.Tensor, other_folded: torch.Tensor | None
) -> torch.Tensor:
    """ReLU of the normalised x, plus the other, which may have a norm of its own."""
    grid, sizes = grid_of(x, TILE["PIXELS"])
    norms = 1 if other_folded is None else 2
    second = folded if other_folded is None else other_folded
    sum_kernel[grid](x, folded, other, second, NORMS=norms, **sizes)
    return x


def norm_relu_pool(x: torch.Tensor, bn: nn.BatchNorm2d, pool: nn.MaxPool2d) -> torch.Tensor:
    """Batch norm, ReLU and max pooling."""
    batch, channels, height, width = x.shape
    size, stride, padding = pool.kernel_size, pool.stride, pool.padding
    out_height, out_width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    y = torch.empty(
        (batch, channels, out_height, out_width),
        device=x.device,
        dtype=x.dtype,
        memory_format=torch.channels_last,
    )
    grid, sizes = grid_of(y, TILE["POOLED"])
    norm_pool_kernel[grid](
        x,
        fold(x, bn),
        y,
        HEIGHT=height,
        WIDTH=width,
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        SIZE=size,
        STRIDE=stride,
        PADDING=padding,
        **sizes,
    )
    return y


def norm_relu_mean(x: torch.Tensor, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Batch norm, ReLU, and the mean over height and width."""
    batch, channels, height, width = x.shape
    y = torch.empty((batch, channels), device=x.device, dtype=x.dtype)
    norm_mean_kernel[(batch, triton.cdiv(channels, 32))](
        x, fold(x, bn), y, C=channels, S=height * width, BLOCK_S=128, BLOCK_C=32, num_warps=8
    )
    return y


class ChannelShuffle(nn.Module):
    """Interleave the channels of the groups."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups


class ShuffleNetUnit(nn.Module):
    """Grouped, depthwise and grouped convolutions with a channel shuffle and a shortcut."""

    def __init__(self, in_channels, out_channels, groups=3):
        super().__init__()
        mid_channels = out_channels // 4
        self.conv1 = nn.Conv2d(in_channels, mid_channels, kernel_size=1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(mid_channels)
        self.conv2 = nn.Conv2d(
            mid_channels, mid_channels, kernel_size=3, padding=1, groups=mid_channels, bias=False
        )
        self.bn2 = nn.BatchNorm2d(mid_channels)
        self.conv3 = nn.Conv2d(mid_channels, out_channels, kernel_size=1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shuffle = ChannelShuffle(groups)
        self.shortcut = nn.Sequential()
        if in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = convolve(x, self.conv1)
        out, folded = depthwise(out, fold(out, self.bn1), self.conv2, self.bn2)
        out = convolve(shuffled(out, folded, self.shuffle.groups), self.conv3)
        other, other_folded = x, None
        if len(self.shortcut):
            conv, bn = self.shortcut
            other = convolve(x, conv)
            other_folded = fold(other, bn)
        return relu_sum_(out, fold(out, self.bn3), other, other_folded)


class ModelNew(nn.Module):
    """A ShuffleNet v1 classifier with stride 1 in all units."""

    def __init__(
        self, num_classes=1000, groups=3, stages_repeats=[3, 7, 3], stages_out_channels=[24, 240, 480, 960]
    ):
        super().__init__()
        stem, *widths = stages_out_channels
        self.conv1 = nn.Conv2d(3, stem, kernel_size=3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.stage2 = self._stage(stem, widths[0], stages_repeats[0], groups)
        self.stage3 = self._stage(widths[0], widths[1], stages_repeats[1], groups)
        self.stage4 = self._stage(widths[1], widths[2], stages_repeats[2], groups)
        self.conv5 = nn.Conv2d(widths[2], 1024, kernel_size=1, bias=False)
        self.bn5 = nn.BatchNorm2d(1024)
        self.fc = nn.Linear(1024, num_classes)
        self.to(memory_format=torch.channels_last)

    @staticmethod
    def _stage(in_channels, out_channels, repeats, groups):
        units = [ShuffleNetUnit(in_channels, out_channels, groups)]
        units += [ShuffleNetUnit(out_channels, out_channels, groups) for _ in range(repeats - 1)]
        return nn.Sequential(*units)

    def forward(self, x):
        x = norm_relu_pool(convolve(channels_last(x), self.conv1), self.bn1, self.maxpool)
        for stage in (self.stage2, self.stage3, self.stage4):
            for unit in stage:
                x = unit(x)
        x = norm_relu_mean(convolve(x, self.conv5), self.bn5)
        return F.linear(x, self.fc.weight, self.fc.bias)
