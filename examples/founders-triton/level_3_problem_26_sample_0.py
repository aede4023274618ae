"""ShuffleNet with the channels innermost, as tensor cores want them.

A 1x1 convolution is one kernel that reads its input once, takes the moments of its result, and applies the batch norm
before it as it loads. The depthwise convolution applies batch norm and ReLU as it loads, takes moments, and shuffles
the channels as it stores. One pass applies a unit's last batch norm and ReLU and adds the shortcut. Grouped
convolutions multiply in three TF32 parts, the others in one. Eager PyTorch reads and writes the maps three times as
often, and convolves groups slowly. All of it is launched as one CUDA graph.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {
    "GROUPED": {"BLOCK_P": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2},
    "WHOLE": {"BLOCK_P": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4},
    "DEPTHWISE": 64,
}
"""Pixels and inputs of a tile of the 1x1 convolutions, and its warps and stages; pixels of the depthwise ones."""


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number."""
    if ROUND:
        x = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def split_kernel(x_ptr, high_ptr, low_ptr, numbers, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    """The nearest TF32 numbers, and what is left."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < numbers, other=0.0)
    high = nearest_tf32(x, ROUND)
    tl.store(high_ptr + at, high, mask=at < numbers)
    tl.store(low_ptr + at, x - high, mask=at < numbers)


@triton.jit
def store_moments(parts_ptr, y, p, c, kept, pixels, channels, slot, slots, BLOCK_P: tl.constexpr):
    """Mean and sum of squares around it of each column of a tile [pixels, channels]: [2, slots, channels]."""
    there = (p < pixels)[:, None]
    count = tl.minimum(pixels - slot * BLOCK_P, BLOCK_P).to(tl.float32)
    mean = tl.sum(tl.where(there, y, 0.0), axis=0) / count
    rest = tl.where(there, y - mean[None, :], 0.0)
    tl.store(parts_ptr + slot * channels + c, mean, mask=kept)
    tl.store(parts_ptr + (slots + slot) * channels + c, tl.sum(rest * rest, axis=0), mask=kept)


@triton.jit
def add_products(y, x_high, x_low, high_ptr, low_ptr, at, there, EXACT: tl.constexpr):
    """y + x W^T, small terms first."""
    high = tl.load(high_ptr + at, mask=there, other=0.0)
    if EXACT:
        low = tl.load(low_ptr + at, mask=there, other=0.0)
        y = tl.dot(x_low, tl.trans(high), y, input_precision="tf32")
        y = tl.dot(x_high, tl.trans(low), y, input_precision="tf32")
    return tl.dot(x_high, tl.trans(high), y, input_precision="tf32")


@triton.jit
def pointwise_kernel(
    x_ptr,
    high_ptr,
    low_ptr,
    fold_ptr,
    y_ptr,
    parts_ptr,
    pixels,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUPS: tl.constexpr,
    FOLDED: tl.constexpr,
    EXACT: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
):
    """A grouped 1x1 convolution of [pixels, inputs], and its moments; may normalise what it reads.

    A program has FIRST + SECOND outputs of a group, so that few lie beyond the group's.
    """
    k_group: tl.constexpr = INPUTS // GROUPS
    m_group: tl.constexpr = OUTPUTS // GROUPS
    m_blocks: tl.constexpr = (m_group + FIRST + SECOND - 1) // (FIRST + SECOND)
    slot = tl.program_id(0) // (GROUPS * m_blocks)
    group = tl.program_id(0) % (GROUPS * m_blocks) // m_blocks
    start = tl.program_id(0) % m_blocks * (FIRST + SECOND)
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)
    m1 = start + tl.arange(0, FIRST)
    m2 = start + FIRST + tl.arange(0, SECOND if SECOND > 0 else 1)
    y1 = tl.zeros([BLOCK_P, FIRST], tl.float32)
    y2 = tl.zeros([BLOCK_P, SECOND if SECOND > 0 else 16], tl.float32)
    row = p.to(tl.int64)[:, None] * INPUTS + group * k_group
    for depth in range(0, k_group, BLOCK_K):
        k = depth + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + row + k[None, :], mask=(p < pixels)[:, None] & (k < k_group)[None, :], other=0.0)
        if FOLDED:
            scale = tl.load(fold_ptr + group * k_group + k, mask=k < k_group, other=0.0)
            shift = tl.load(fold_ptr + INPUTS + group * k_group + k, mask=k < k_group, other=0.0)
            x = x * scale[None, :] + shift[None, :]
        x_high = nearest_tf32(x, ROUND)
        x_low = x - x_high
        at = (group * m_group + m1)[:, None] * k_group + k[None, :]
        there = (m1 < m_group)[:, None] & (k < k_group)[None, :]
        y1 = add_products(y1, x_high, x_low, high_ptr, low_ptr, at, there, EXACT)
        if SECOND > 0:
            at = (group * m_group + m2)[:, None] * k_group + k[None, :]
            there = (m2 < m_group)[:, None] & (k < k_group)[None, :]
            y2 = add_products(y2, x_high, x_low, high_ptr, low_ptr, at, there, EXACT)
    slots = tl.cdiv(pixels, BLOCK_P)
    row = p.to(tl.int64)[:, None] * OUTPUTS + group * m_group
    tl.store(y_ptr + row + m1[None, :], y1, mask=(p < pixels)[:, None] & (m1 < m_group)[None, :])
    c = group * m_group + m1
    store_moments(parts_ptr, y1, p, c, m1 < m_group, pixels, OUTPUTS, slot, slots, BLOCK_P)
    if SECOND > 0:
        tl.store(y_ptr + row + m2[None, :], y2, mask=(p < pixels)[:, None] & (m2 < m_group)[None, :])
        c = group * m_group + m2
        store_moments(parts_ptr, y2, p, c, m2 < m_group, pixels, OUTPUTS, slot, slots, BLOCK_P)


@triton.jit
def depthwise_kernel(
    x_ptr,
    weight_ptr,
    fold_ptr,
    y_ptr,
    parts_ptr,
    pixels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """A 3x3 convolution of each channel's normalised ReLU, its channels shuffled, and its moments."""
    c_blocks: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    slot = tl.program_id(0) // c_blocks
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(0) % c_blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    kept = c < CHANNELS
    row, column = p // WIDTH % HEIGHT, p % WIDTH
    scale = tl.load(fold_ptr + c, mask=kept, other=0.0)
    shift = tl.load(fold_ptr + CHANNELS + c, mask=kept, other=0.0)
    at = p.to(tl.int64)[:, None] * CHANNELS + c[None, :]
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            near = (
                (row + i > 0) & (row + i <= HEIGHT) & (column + j > 0) & (column + j <= WIDTH) & (p < pixels)
            )
            near = near[:, None] & kept[None, :]
            x = tl.load(x_ptr + at + ((i - 1) * WIDTH + j - 1) * CHANNELS, mask=near, other=0.0)
            x = x * scale[None, :] + shift[None, :]
            weight = tl.load(weight_ptr + c * 9 + i * 3 + j, mask=kept, other=0.0)
            y += tl.where(near & (x > 0.0), x, 0.0) * weight[None, :]
    size: tl.constexpr = CHANNELS // GROUPS
    place = c % size * GROUPS + c // size
    there = (p < pixels)[:, None] & kept[None, :]
    tl.store(y_ptr + p.to(tl.int64)[:, None] * CHANNELS + place[None, :], y, mask=there)
    slots = tl.cdiv(pixels, BLOCK_P)
    store_moments(parts_ptr, y, p, c, kept, pixels, CHANNELS, slot, slots, BLOCK_P)


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
    pixels,
    eps,
    momentum,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    PART: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The parts' moments of some channels into scale and shift of a batch norm, where a shuffle of so many groups puts
    them; updates the running statistics."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    slot = tl.arange(0, SLOTS)[:, None]
    kept = c < CHANNELS
    there = (slot < slots) & kept[None, :]
    means = tl.load(parts_ptr + slot * CHANNELS + c[None, :], mask=there, other=0.0)
    m2s = tl.load(parts_ptr + (slots + slot) * CHANNELS + c[None, :], mask=there, other=0.0)
    counts = tl.where(slot < slots, tl.minimum(pixels - slot * PART, PART), 0).to(tl.float32)
    mean = tl.sum(counts * means, axis=0) / pixels
    m2 = tl.sum(m2s + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    weight, bias = tl.load(weight_ptr + c, mask=kept), tl.load(bias_ptr + c, mask=kept)
    scale = weight / tl.sqrt(m2 / pixels + eps)
    size: tl.constexpr = CHANNELS // GROUPS
    place = c % size * GROUPS + c // size
    tl.store(fold_ptr + place, scale, mask=kept)
    tl.store(fold_ptr + CHANNELS + place, bias - mean * scale, mask=kept)
    old_mean, old_var = tl.load(mean_ptr + c, mask=kept), tl.load(var_ptr + c, mask=kept)
    tl.store(mean_ptr + c, old_mean + momentum * (mean - old_mean), mask=kept)
    tl.store(var_ptr + c, old_var + momentum * (m2 / (pixels - 1) - old_var), mask=kept)
    if tl.program_id(0) == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def add_kernel(
    x_ptr,
    fold_ptr,
    short_ptr,
    short_fold_ptr,
    y_ptr,
    pixels,
    CHANNELS: tl.constexpr,
    NORMS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The ReLU of a map's batch norm plus the shortcut, which may have a batch norm of its own."""
    c_blocks: tl.constexpr = (CHANNELS + BLOCK_C - 1) // BLOCK_C
    p = tl.program_id(0) // c_blocks * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(0) % c_blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    kept = c < CHANNELS
    there = (p < pixels)[:, None] & kept[None, :]
    at = p.to(tl.int64)[:, None] * CHANNELS + c[None, :]
    x, short = tl.load(x_ptr + at, mask=there, other=0.0), tl.load(short_ptr + at, mask=there, other=0.0)
    x = x * tl.load(fold_ptr + c, mask=kept, other=0.0)[None, :]
    x += tl.load(fold_ptr + CHANNELS + c, mask=kept, other=0.0)[None, :]
    if NORMS == 2:
        short = short * tl.load(short_fold_ptr + c, mask=kept, other=0.0)[None, :]
        short += tl.load(short_fold_ptr + CHANNELS + c, mask=kept, other=0.0)[None, :]
    tl.store(y_ptr + at, tl.where(x < 0.0, 0.0, x) + short, mask=there)


@triton.jit
def mean_kernel(x_ptr, fold_ptr, y_ptr, space, channels, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):
    """The mean over an image's pixels of the ReLU of its batch norm."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    kept = c < channels
    scale = tl.load(fold_ptr + c, mask=kept, other=0.0)[None, :]
    shift = tl.load(fold_ptr + channels + c, mask=kept, other=0.0)[None, :]
    x_ptr += tl.program_id(0).to(tl.int64) * space * channels
    total = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for start in range(0, space, BLOCK_P):
        p = start + tl.arange(0, BLOCK_P)
        there = (p < space)[:, None] & kept[None, :]
        x = tl.load(x_ptr + p[:, None] * channels + c[None, :], mask=there, other=0.0) * scale + shift
        total += tl.where(there & (x > 0.0), x, 0.0)
    tl.store(y_ptr + tl.program_id(0) * channels + c, tl.sum(total, axis=0) / space, mask=kept)


def split(weights: list[torch.Tensor], rounded: bool) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """The nearest TF32 numbers of each weight, and what is left, by the weight's identity."""
    flat = torch.cat([weight.flatten() for weight in weights])
    high, low = torch.empty_like(flat), torch.empty_like(flat)
    split_kernel[(triton.cdiv(flat.numel(), 1024),)](
        flat, high, low, flat.numel(), ROUND=rounded, BLOCK=1024, num_warps=4
    )
    sizes = [weight.numel() for weight in weights]
    return {
        id(weight): pair for weight, *pair in zip(weights, high.split(sizes), low.split(sizes), strict=True)
    }


def fold(parts: torch.Tensor, bn: nn.BatchNorm2d, pixels: int, part: int, groups: int = 1) -> torch.Tensor:
    """Scale and shift, [2, channels], of a batch norm in training mode from the parts' moments."""
    _, slots, channels = parts.shape
    folded = torch.empty((2, channels), device=parts.device, dtype=torch.float32)
    padded = triton.next_power_of_2(slots)
    block = max(1, min(16, 8192 // padded))
    join_kernel[(triton.cdiv(channels, block),)](
        parts,
        bn.weight,
        bn.bias,
        bn.running_mean,
        bn.running_var,
        bn.num_batches_tracked,
        folded,
        slots,
        pixels,
        bn.eps,
        bn.momentum,
        CHANNELS=channels,
        GROUPS=groups,
        PART=part,
        SLOTS=padded,
        BLOCK_C=block,
        num_warps=4,
    )
    return folded


def outputs_of_a_program(outputs: int) -> tuple[int, int]:
    """Two powers of two that make up a part of a group's outputs with few beyond them."""
    if outputs > 160:
        return (128, 32) if outputs % 160 == 0 and outputs % 128 else (128, 0)
    first = max(16, triton.next_power_of_2(outputs + 1) // 2)
    rest = outputs - first
    return first, max(16, triton.next_power_of_2(rest)) if rest > 0 else 0


def pointwise(
    x: torch.Tensor,
    conv: nn.Conv2d,
    bn: nn.BatchNorm2d,
    parted: dict[int, tuple[torch.Tensor, torch.Tensor]],
    folded: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A 1x1 convolution of [pixels, inputs] and the fold of the batch norm behind it; x is normalised where a fold is
    given."""
    pixels, inputs = x.shape
    outputs, groups = conv.out_channels, conv.groups
    tile = TILE["GROUPED" if groups > 1 else "WHOLE"]
    first, second = outputs_of_a_program(outputs // groups)
    y = torch.empty((pixels, outputs), device=x.device, dtype=x.dtype)
    slots = triton.cdiv(pixels, tile["BLOCK_P"])
    parts = torch.empty((2, slots, outputs), device=x.device, dtype=torch.float32)
    high, low = parted[id(conv.weight)]
    pointwise_kernel[(slots * groups * triton.cdiv(outputs // groups, first + second),)](
        x,
        high,
        low,
        x if folded is None else folded,
        y,
        parts,
        pixels,
        INPUTS=inputs,
        OUTPUTS=outputs,
        GROUPS=groups,
        FOLDED=folded is not None,
        EXACT=groups > 1,
        ROUND=groups > 1 or x.device.type != "cpu",
        FIRST=first,
        SECOND=second,
        **tile,
    )
    return y, fold(parts, bn, pixels, tile["BLOCK_P"])


def depthwise(
    x: torch.Tensor,
    conv: nn.Conv2d,
    bn: nn.BatchNorm2d,
    folded: torch.Tensor,
    height: int,
    width: int,
    groups: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A depthwise 3x3 convolution of the normalised ReLU of x, shuffled, and the fold of the batch norm behind it."""
    pixels, channels = x.shape
    y = torch.empty_like(x)
    part = TILE["DEPTHWISE"]
    slots = triton.cdiv(pixels, part)
    parts = torch.empty((2, slots, channels), device=x.device, dtype=torch.float32)
    depthwise_kernel[(slots * triton.cdiv(channels, 64),)](
        x,
        conv.weight,
        folded,
        y,
        parts,
        pixels,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        GROUPS=groups,
        BLOCK_P=part,
        BLOCK_C=64,
        num_warps=8,
    )
    return y, fold(parts, bn, pixels, part, groups)


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
        self.shortcut = nn.Sequential()
        if in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x, height, width, parted):
        y, folded = pointwise(x, self.conv1, self.bn1, parted)
        y, folded = depthwise(y, self.conv2, self.bn2, folded, height, width, self.conv3.groups)
        y, folded = pointwise(y, self.conv3, self.bn3, parted, folded)
        short, short_fold = pointwise(x, *self.shortcut, parted) if len(self.shortcut) else (x, folded)
        pixels, channels = y.shape
        out = torch.empty_like(y)
        add_kernel[(triton.cdiv(pixels, 64) * triton.cdiv(channels, 64),)](
            y,
            folded,
            short,
            short_fold,
            out,
            pixels,
            CHANNELS=channels,
            NORMS=2 if len(self.shortcut) else 1,
            BLOCK_P=64,
            BLOCK_C=64,
            num_warps=8,
        )
        return out


class Network(nn.Module):
    """A ShuffleNet v1 classifier with stride 1 in all units."""

    def __init__(
        self, num_classes=1000, groups=3, stages_repeats=(3, 7, 3), stages_out_channels=(24, 240, 480, 960)
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

    @staticmethod
    def _stage(in_channels, out_channels, repeats, groups):
        units = [ShuffleNetUnit(in_channels, out_channels, groups)]
        units += [ShuffleNetUnit(out_channels, out_channels, groups) for _ in range(repeats - 1)]
        return nn.Sequential(*units)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        batch, channels, height, width = x.shape
        x = x.permute(0, 2, 3, 1).contiguous().view(-1, channels)
        convs = [
            layer for layer in self.modules() if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)
        ]
        parted = split([conv.weight for conv in convs if conv.groups > 1], True)
        parted |= split([conv.weight for conv in convs if conv.groups == 1], x.device.type != "cpu")
        for unit in (*self.stage2, *self.stage3, *self.stage4):
            x = unit(x, height, width, parted)
        y, folded = pointwise(x, self.conv5, self.bn5, parted)
        channels = y.shape[1]
        pooled = torch.empty((batch, channels), device=x.device, dtype=x.dtype)
        mean_kernel[(batch, triton.cdiv(channels, 32))](
            y, folded, pooled, height * width, channels, BLOCK_P=64, BLOCK_C=32, num_warps=4
        )
        return self.fc(pooled)


class ModelNew(Network):
    """The network, replayed as a CUDA graph: of a copy of the input, and giving a copy of the output."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tensors = []
        self.recorded = None

    def record(self, x):
        """Record the network's work on a copy of x; running statistics are afterwards as they were."""
        self.input = x.clone()
        self.tensors = [*self.parameters(), *self.buffers()]
        before = [(buffer, buffer.clone()) for buffer in self.buffers()]
        with torch.no_grad():
            here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
            aside.wait_stream(here)
            with torch.cuda.stream(aside):
                for _ in range(2):
                    super().forward(self.input)
            here.wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = super().forward(self.input)
            for buffer, value in before:
                buffer.copy_(value)
        self.recorded = self.places(x)

    def places(self, x):
        """What a record holds for: a shape, a tile, and where the parameters and buffers lie."""
        return x.shape, x.dtype, TILE, [tensor.data_ptr() for tensor in self.tensors]

    def forward(self, x):
        if not x.is_cuda:
            return super().forward(x)
        if self.recorded != self.places(x):
            self.record(x)
        self.input.copy_(x)
        self.graph.replay()
        return self.output.clone()
