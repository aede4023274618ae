"""ResNet-18 with channels last from end to end, as cuDNN convolves fastest, and one kernel between two convolutions:
a program keeps all pixels of a few channels in registers, so that statistics, batch norm, sum and ReLU take one read
and one write. Maps too large for that take a pass for the statistics, and one that normalises (and pools).

All of it is launched as one CUDA graph, since the launches take longer than the work.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"CHANNELS": 4, "EACH": 16, "WHOLE": 32768, "PIXELS": 32, "SLOTS": 264, "POOLED": 32}
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
def whole_norm(
    x_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm of all pixels of a program's channels."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_P)[:, None]
    kept = c < C
    there = (p < P) & kept[None, :]
    x = tl.load(x_ptr + p * C + c[None, :], mask=there, other=0.0)
    mean = tl.sum(x, axis=0) / P
    x = tl.where(there, x - mean[None, :], 0.0)
    m2 = tl.sum(x * x, axis=0)
    update_running(c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P, MOMENTUM)
    scale = tl.load(weight_ptr + c, mask=kept) / tl.sqrt(m2 / P + EPS)
    return x * scale[None, :] + tl.load(bias_ptr + c, mask=kept)[None, :]


@triton.jit
def whole_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    other_ptr,
    other_weight_ptr,
    other_bias_ptr,
    other_mean_ptr,
    other_var_ptr,
    other_batches_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    OTHER_EPS: tl.constexpr,
    OTHER_MOMENTUM: tl.constexpr,
    SUM: tl.constexpr,
    NORMS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm, the sum with another map (with its own batch norm where there are two), ReLU, in place."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.arange(0, BLOCK_P)[:, None]
    there = (p < P) & (c < C)
    x = whole_norm(
        x_ptr, weight_ptr, bias_ptr, mean_ptr, var_ptr, batches_ptr, C, P, EPS, MOMENTUM, BLOCK_P, BLOCK_C
    )
    if NORMS == 2:
        x += whole_norm(
            other_ptr,
            other_weight_ptr,
            other_bias_ptr,
            other_mean_ptr,
            other_var_ptr,
            other_batches_ptr,
            C,
            P,
            OTHER_EPS,
            OTHER_MOMENTUM,
            BLOCK_P,
            BLOCK_C,
        )
    elif SUM:
        x += tl.load(other_ptr + p * C + c, mask=there)
    tl.store(x_ptr + p * C + c, tl.where(x < 0.0, 0.0, x), mask=there)


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
    SLOTS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The parts' moments into the scale and shift of a batch norm."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    slot = tl.arange(0, SLOTS)[:, None]
    kept = c < C
    at = parts_ptr + slot * C + c[None, :]
    there = (slot < slots) & kept[None, :]
    means = tl.load(at, mask=there, other=0.0)
    m2s = tl.load(at + slots * C, mask=there, other=0.0)
    counts = tl.load(at + 2 * slots * C, mask=there, other=0.0)
    mean = tl.sum(counts * means, axis=0) / P
    m2 = tl.sum(m2s + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    update_running(c, kept, mean, m2, mean_ptr, var_ptr, batches_ptr, P, MOMENTUM)
    scale = tl.load(weight_ptr + c, mask=kept) / tl.sqrt(m2 / P + EPS)
    tl.store(fold_ptr + c, scale, mask=kept)
    tl.store(fold_ptr + C + c, tl.load(bias_ptr + c, mask=kept) - mean * scale, mask=kept)


@triton.jit
def norm_kernel(
    x_ptr,
    fold_ptr,
    other_ptr,
    other_fold_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    SUM: tl.constexpr,
    NORMS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """What whole_kernel does after the statistics."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    there = (p < P) & (c < C)
    offsets = p.to(tl.int64) * C + c
    x = tl.load(x_ptr + offsets, mask=there)
    x = x * tl.load(fold_ptr + c, mask=c < C) + tl.load(fold_ptr + C + c, mask=c < C)
    if SUM:
        other = tl.load(other_ptr + offsets, mask=there)
        if NORMS == 2:
            other = other * tl.load(other_fold_ptr + c, mask=c < C)
            other += tl.load(other_fold_ptr + C + c, mask=c < C)
        x += other
    tl.store(x_ptr + offsets, tl.where(x < 0.0, 0.0, x), mask=there)


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


def statistics(bn: nn.BatchNorm2d) -> tuple[torch.Tensor, ...]:
    """What a batch norm reads and updates."""
    return bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.num_batches_tracked


def fold(x: torch.Tensor, bn: nn.BatchNorm2d) -> torch.Tensor:
    """Scale and shift, [2, C], of a batch norm in training mode; updates the running statistics."""
    channels = x.shape[1]
    pixels = x.numel() // channels
    block_p, block_c = TILE["PIXELS"], min(64, triton.next_power_of_2(channels))
    slots = min(TILE["SLOTS"], triton.cdiv(pixels, block_p))
    parts = torch.empty((3, slots, channels), device=x.device, dtype=torch.float32)
    moments_kernel[(slots, triton.cdiv(channels, block_c))](
        x, parts, C=channels, P=pixels, BLOCK_P=block_p, BLOCK_C=block_c, num_warps=4
    )
    folded = torch.empty((2, channels), device=x.device, dtype=torch.float32)
    join_kernel[(triton.cdiv(channels, 4),)](
        parts,
        *statistics(bn),
        folded,
        slots,
        C=channels,
        P=pixels,
        EPS=bn.eps,
        MOMENTUM=bn.momentum,
        SLOTS=triton.next_power_of_2(slots),
        BLOCK_C=4,
        num_warps=4,
    )
    return folded


def norm_relu_(
    x: torch.Tensor,
    bn: nn.BatchNorm2d,
    other: torch.Tensor | None = None,
    other_bn: nn.BatchNorm2d | None = None,
) -> torch.Tensor:
    """ReLU of the normalised x plus the other, which is normalised too if it has a norm, in place of x."""
    channels = x.shape[1]
    pixels = x.numel() // channels
    norms = 1 if other_bn is None else 2
    added = x if other is None else other
    second = bn if other_bn is None else other_bn
    block_p, block_c = triton.next_power_of_2(pixels), TILE["CHANNELS"]
    if block_p * block_c <= TILE["WHOLE"]:
        whole_kernel[(triton.cdiv(channels, block_c),)](
            x,
            *statistics(bn),
            added,
            *statistics(second),
            C=channels,
            P=pixels,
            EPS=bn.eps,
            MOMENTUM=bn.momentum,
            OTHER_EPS=second.eps,
            OTHER_MOMENTUM=second.momentum,
            SUM=other is not None,
            NORMS=norms,
            BLOCK_P=block_p,
            BLOCK_C=block_c,
            num_warps=max(1, min(32, block_p * block_c // (32 * TILE["EACH"]))),
        )
        return x
    folded = fold(x, bn)
    block_p, block_c = TILE["PIXELS"], min(64, triton.next_power_of_2(channels))
    norm_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(channels, block_c))](
        x,
        folded,
        added,
        folded if other_bn is None else fold(other, other_bn),
        C=channels,
        P=pixels,
        SUM=other is not None,
        NORMS=norms,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=4,
    )
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
    pixels = batch * out_height * out_width
    block_p, block_c = TILE["POOLED"], min(64, triton.next_power_of_2(channels))
    norm_pool_kernel[(triton.cdiv(pixels, block_p), triton.cdiv(channels, block_c))](
        x,
        fold(x, bn),
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


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and an identity or projected shortcut."""

    expansion = 1

    def __init__(self, in_channels, out_channels, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = downsample

    def forward(self, x):
        out = norm_relu_(convolve(x, self.conv1), self.bn1)
        out = convolve(out, self.conv2)
        if self.downsample is None:
            return norm_relu_(out, self.bn2, x)
        conv, bn = self.downsample
        return norm_relu_(out, self.bn2, convolve(x, conv), bn)


class Network(nn.Module):
    """The ResNet-18 classifier."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.in_channels = 64
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(64, blocks=2, stride=1)
        self.layer2 = self._stage(128, blocks=2, stride=2)
        self.layer3 = self._stage(256, blocks=2, stride=2)
        self.layer4 = self._stage(512, blocks=2, stride=2)
        self.fc = nn.Linear(512 * BasicBlock.expansion, num_classes)
        self.to(memory_format=torch.channels_last)

    def _stage(self, channels, blocks, stride):
        """Build one stage; only its first block changes the resolution and the width."""
        width = channels * BasicBlock.expansion
        downsample = None
        if stride != 1 or self.in_channels != width:
            downsample = nn.Sequential(
                nn.Conv2d(self.in_channels, width, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(width),
            )
        layers = [BasicBlock(self.in_channels, channels, stride, downsample)]
        self.in_channels = width
        layers += [BasicBlock(width, channels) for _ in range(blocks - 1)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = norm_relu_pool(convolve(channels_last(x), self.conv1), self.bn1, self.maxpool)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in stage:
                x = block(x)
        return F.linear(pixel_mean(x), self.fc.weight, self.fc.bias)


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
