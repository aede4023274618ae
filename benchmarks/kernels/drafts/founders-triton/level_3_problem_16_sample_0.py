"""DenseNet with channels last from end to end, as cuDNN convolves fastest, and one kernel between two convolutions.

A program keeps all pixels of a few channels in registers: it writes a convolution's result to its place in the
concatenation, and normalises what the next one reads with one read. Maps too large for that take a pass for the
statistics and one that normalises.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"CHANNELS": 4, "EACH": 32, "WHOLE": 32768, "PIXELS": 32, "SLOTS": 264, "POOLED": 16}
"""A program's channels where it keeps all pixels, its values a thread, and at most so many in all; elsewhere a tile's
pixels, the parts that statistics are taken in, and a tile's pixels after pooling."""


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
def gathered(
    new_ptr,
    features_ptr,
    p,
    c,
    channels,
    added,
    total,
    P: tl.constexpr,
    ALL_NEW: tl.constexpr,
    STORE: tl.constexpr,
):
    """Pixels p, [.., 1], and channels c, [1, ..], of features the last of which, or all, come from another tensor;
    these may be stored behind the others. 0 where there are none."""
    old = channels - added
    is_new = (p < P) & (c >= old) & (c < channels)
    x = tl.load(new_ptr + p * added + (c - old), mask=is_new, other=0.0)
    if STORE:
        tl.store(features_ptr + p * total + c, x, mask=is_new)
    if not ALL_NEW:
        x += tl.load(features_ptr + p * total + c, mask=(p < P) & (c < old), other=0.0)
    return x


@triton.jit
def whole_kernel(
    new_ptr,
    features_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    y_ptr,
    channels,
    added,
    total,
    P: tl.constexpr,
    ALL_NEW: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Put new features to the others; batch norm and ReLU of all pixels of a program's channels."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)[:, None]
    kept = c < channels
    there = (p < P) & kept[None, :]
    x = gathered(new_ptr, features_ptr, p, c[None, :], channels, added, total, P, ALL_NEW, True)
    mean = tl.sum(x, axis=0) / P
    x = tl.where(there, x - mean[None, :], 0.0)
    m2 = tl.sum(x * x, axis=0)
    update_running(c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P, MOMENTUM)
    scale = tl.load(weight_ptr + c, mask=kept) / tl.sqrt(m2 / P + EPS)
    x = x * scale[None, :] + tl.load(bias_ptr + c, mask=kept)[None, :]
    tl.store(y_ptr + p * channels + c[None, :], tl.where(x < 0.0, 0.0, x), mask=there)


@triton.jit
def moments_kernel(
    new_ptr,
    features_ptr,
    parts_ptr,
    channels,
    added,
    total,
    P: tl.constexpr,
    ALL_NEW: tl.constexpr,
    STORE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Put new features to the others; mean, sum of squares around it, and count of every so many tiles, by Welford's
    update: [3, parts, channels]."""
    slot, slots = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    count = tl.zeros([BLOCK_P, 1], tl.float32)
    mean = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    m2 = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    step = 0.0
    for _ in range(tl.cdiv(P, slots * BLOCK_P)):
        there = (p < P) & (c < channels)[None, :]
        x = gathered(
            new_ptr, features_ptr, p.to(tl.int64), c[None, :], channels, added, total, P, ALL_NEW, STORE
        )
        step += 1.0
        delta = tl.where(there, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(p < P, 1.0, 0.0)
        p += slots * BLOCK_P
    pixels = tl.sum(tl.sum(count, axis=1), axis=0)
    center = tl.sum(count * mean, axis=0) / pixels
    m2 = tl.sum(m2 + count * (mean - center[None, :]) * (mean - center[None, :]), axis=0)
    at = parts_ptr + slot * channels + c
    tl.store(at, center, mask=c < channels)
    tl.store(at + slots * channels, m2, mask=c < channels)
    tl.store(at + 2 * slots * channels, tl.zeros([BLOCK_C], tl.float32) + pixels, mask=c < channels)


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
    channels,
    P: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The parts' moments into the scale and shift of a batch norm."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    slot = tl.arange(0, SLOTS)[:, None]
    kept = c < channels
    at = parts_ptr + slot * channels + c[None, :]
    there = (slot < slots) & kept[None, :]
    means = tl.load(at, mask=there, other=0.0)
    m2s = tl.load(at + slots * channels, mask=there, other=0.0)
    counts = tl.load(at + 2 * slots * channels, mask=there, other=0.0)
    mean = tl.sum(counts * means, axis=0) / P
    m2 = tl.sum(m2s + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    update_running(c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P, MOMENTUM)
    scale = tl.load(weight_ptr + c, mask=kept) / tl.sqrt(m2 / P + EPS)
    tl.store(fold_ptr + c, scale, mask=kept)
    tl.store(fold_ptr + channels + c, tl.load(bias_ptr + c, mask=kept) - mean * scale, mask=kept)


@triton.jit
def norm_kernel(
    new_ptr,
    features_ptr,
    fold_ptr,
    y_ptr,
    channels,
    added,
    total,
    P: tl.constexpr,
    ALL_NEW: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm and ReLU of the features."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    kept = c < channels
    x = gathered(new_ptr, features_ptr, p.to(tl.int64), c, channels, added, total, P, ALL_NEW, False)
    x = x * tl.load(fold_ptr + c, mask=kept) + tl.load(fold_ptr + channels + c, mask=kept)
    tl.store(y_ptr + p.to(tl.int64) * channels + c, tl.where(x < 0.0, 0.0, x), mask=(p < P) & kept)


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


@triton.jit
def average_pool_kernel(
    x_ptr,
    y_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    there = (p < P) & (c < C)
    image = (p // (OUT_HEIGHT * OUT_WIDTH)).to(tl.int64)
    row, column = p // OUT_WIDTH % OUT_HEIGHT * STRIDE, p % OUT_WIDTH * STRIDE
    at = x_ptr + ((image * HEIGHT + row) * WIDTH + column) * C + c
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            y += tl.load(at + (i * WIDTH + j) * C, mask=there, other=0.0)
    tl.store(y_ptr + p.to(tl.int64) * C + c, y / (SIZE * SIZE), mask=there)


@triton.jit
def mean_kernel(x_ptr, y_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr):
    """The mean over an image's pixels."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    x_ptr += tl.program_id(0).to(tl.int64) * S * C
    total = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)[:, None]
        total += tl.load(x_ptr + s * C + c[None, :], mask=(s < S) & (c < C)[None, :], other=0.0)
    tl.store(y_ptr + tl.program_id(0) * C + c, tl.sum(total, axis=0) / S, mask=c < C)


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
    y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding)
    return y.contiguous(memory_format=torch.channels_last)


def empty_last(like: torch.Tensor, channels: int, height: int, width: int) -> torch.Tensor:
    """A tensor with channels last."""
    shape = (like.shape[0], channels, height, width)
    return torch.empty(shape, device=like.device, dtype=like.dtype, memory_format=torch.channels_last)


def fold(new: torch.Tensor, features: torch.Tensor, total: int, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Scale and shift, [2, C], of a batch norm in training mode; updates the running statistics."""
    channels = bn.num_features
    pixels = new.numel() // new.shape[1]
    block_p, block_c = TILE["PIXELS"], min(64, triton.next_power_of_2(channels))
    slots = min(TILE["SLOTS"], triton.cdiv(pixels, block_p))
    parts = torch.empty((3, slots, channels), device=new.device, dtype=torch.float32)
    moments_kernel[(slots, triton.cdiv(channels, block_c))](
        new,
        features,
        parts,
        channels,
        new.shape[1],
        total,
        P=pixels,
        ALL_NEW=new.shape[1] == channels,
        STORE=channels < total,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=4,
    )
    folded = torch.empty((2, channels), device=new.device, dtype=torch.float32)
    join_kernel[(triton.cdiv(channels, 4),)](
        parts,
        bn.weight,
        bn.bias,
        bn.running_mean,
        bn.running_var,
        bn.num_batches_tracked,
        folded,
        slots,
        channels,
        P=pixels,
        EPS=bn.eps,
        MOMENTUM=bn.momentum,
        SLOTS=triton.next_power_of_2(slots),
        BLOCK_C=4,
        num_warps=4,
    )
    return folded


def norm_relu(new: torch.Tensor, features: torch.Tensor, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Put new features behind those before them; batch norm and ReLU of all."""
    batch, added, height, width = new.shape
    channels, pixels, total = bn.num_features, batch * height * width, features.shape[1]
    y = empty_last(new, channels, height, width)
    block_p, block_c = triton.next_power_of_2(pixels), TILE["CHANNELS"]
    if block_p * block_c <= TILE["WHOLE"]:
        whole_kernel[(triton.cdiv(channels, block_c),)](
            new,
            features,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            y,
            channels,
            added,
            total,
            P=pixels,
            ALL_NEW=added == channels,
            EPS=bn.eps,
            MOMENTUM=bn.momentum,
            BLOCK_P=block_p,
            BLOCK_C=block_c,
            num_warps=max(1, min(32, block_p * block_c // (32 * TILE["EACH"]))),
        )
        return y
    block_p, block_c = TILE["PIXELS"], min(64, triton.next_power_of_2(channels))
    norm_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(channels, block_c))](
        new,
        features,
        fold(new, features, total, bn),
        y,
        channels,
        added,
        total,
        P=pixels,
        ALL_NEW=added == channels,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return y


def average_pool(x: torch.Tensor, pool: nn.AvgPool2d) -> torch.Tensor:
    """Average pooling without padding."""
    batch, channels, height, width = x.shape
    size, stride = pool.kernel_size, pool.stride
    out_height, out_width = ((side - size) // stride + 1 for side in (height, width))
    y = empty_last(x, channels, out_height, out_width)
    pixels, block_p = batch * out_height * out_width, TILE["POOLED"]
    average_pool_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(channels, 64))](
        x,
        y,
        C=channels,
        P=pixels,
        HEIGHT=height,
        WIDTH=width,
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        SIZE=size,
        STRIDE=stride,
        BLOCK_P=block_p,
        BLOCK_C=64,
        num_warps=4,
    )
    return y


def norm_relu_pool(x: torch.Tensor, bn: nn.BatchNorm2d, pool: nn.MaxPool2d) -> torch.Tensor:
    """Batch norm, ReLU and max pooling."""
    batch, channels, height, width = x.shape
    size, stride, padding = pool.kernel_size, pool.stride, pool.padding
    out_height, out_width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    y = empty_last(x, channels, out_height, out_width)
    pixels = batch * out_height * out_width
    block_p, block_c = TILE["POOLED"], min(64, triton.next_power_of_2(channels))
    norm_pool_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(channels, block_c))](
        x,
        fold(x, x, channels, bn),
        y,
        C=channels,
        P=pixels,
        HEIGHT=height,
        WIDTH=width,
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        SIZE=size,
        STRIDE=stride,
        PADDING=padding,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return y


def pixel_mean(x: torch.Tensor) -> torch.Tensor:
    """The mean over height and width."""
    batch, channels, height, width = x.shape
    y = torch.empty((batch, channels), device=x.device, dtype=x.dtype)
    mean_kernel[(batch, triton.cdiv(channels, 32))](
        x, y, C=channels, S=height * width, BLOCK_S=64, BLOCK_C=32, num_warps=4
    )
    return y


class DenseBlock(nn.Module):
    """Layers that each see the concatenation of the input and all earlier outputs."""

    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            self._layer(num_input_features + index * growth_rate, growth_rate) for index in range(num_layers)
        )

    @staticmethod
    def _layer(in_features, growth_rate):
        return nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_features, growth_rate, kernel_size=3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x, next_bn):
        """The batch norm and ReLU that follow are here as well; a dropout of probability 0 does nothing."""
        features = empty_last(x, next_bn.num_features, *x.shape[2:])
        for bn, _, conv, _ in self.layers:
            x = convolve(norm_relu(x, features, bn), conv)
        return norm_relu(x, features, next_bn)


class TransitionLayer(nn.Module):
    """Batch norm, ReLU, 1x1 convolution and average pooling in sequence."""

    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.transition = nn.Sequential(
            nn.BatchNorm2d(num_input_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )


class ModelNew(nn.Module):
    """The DenseNet-201 classifier built from plain dense blocks."""

    def __init__(self, growth_rate=32, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        num_features = 64
        block_sizes = [6, 12, 48, 32]
        self.dense_blocks = nn.ModuleList()
        self.transition_layers = nn.ModuleList()
        for index, num_layers in enumerate(block_sizes):
            self.dense_blocks.append(DenseBlock(num_layers, num_features, growth_rate))
            num_features += num_layers * growth_rate
            if index < len(block_sizes) - 1:
                self.transition_layers.append(TransitionLayer(num_features, num_features // 2))
                num_features //= 2
        self.final_bn = nn.BatchNorm2d(num_features)
        self.classifier = nn.Linear(num_features, num_classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        conv, bn, _, pool = self.features
        x = norm_relu_pool(convolve(channels_last(x), conv), bn, pool)
        *blocks, last = self.dense_blocks
        for block, layer in zip(blocks, self.transition_layers):
            bn, _, conv, pool = layer.transition
            x = average_pool(convolve(block(x, bn), conv), pool)
        x = pixel_mean(last(x, self.final_bn))
        return F.linear(x, self.classifier.weight, self.classifier.bias)
