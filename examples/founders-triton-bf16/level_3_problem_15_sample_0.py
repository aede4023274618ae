"""DenseNet-121 with channels last: a layer's batch norm and ReLU take one read and one write, and a convolution's result
is copied to where the concatenation wants it while its moments are taken. So each channel's moments are found once;
eager PyTorch concatenates and takes them anew in every layer. A transition pools before its 1x1 convolution, which
gives the same and convolves a quarter. All of it is launched as one CUDA graph, since the launches take longer than
the work.

Inputs, weights and maps are bf16; sums and moments are fp32.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 32, "PART": 32, "SLOTS": 132, "num_warps": 4}
"""A tile's pixels where it normalises and where it takes moments, and the moments' parts."""


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
def moments_kernel(
    x_ptr,
    out_ptr,
    parts_ptr,
    channels,
    pixels,
    stride,
    out_stride,
    COPY: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean, sum of squares around it, and count of every so many tiles, by Welford's update: [3, parts, channels]; may copy x."""
    slot, slots = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = slot * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    count = tl.zeros([BLOCK_P, 1], tl.float32)
    mean = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    m2 = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    step = 0.0
    for _ in range(tl.cdiv(pixels, slots * BLOCK_P)):
        there = (p < pixels) & (c < channels)[None, :]
        raw = tl.load(x_ptr + p.to(tl.int64) * stride + c[None, :], mask=there, other=0.0)
        if COPY:
            tl.store(out_ptr + p.to(tl.int64) * out_stride + c[None, :], raw, mask=there)
        x = raw.to(tl.float32)
        step += 1.0
        delta = tl.where(there, x - mean, 0.0)
        mean += delta * (1.0 / step)
        m2 += delta * (x - mean)
        count += tl.where(p < pixels, 1.0, 0.0)
        p += slots * BLOCK_P
    sum_count = tl.sum(tl.sum(count, axis=1), axis=0)
    center = tl.sum(count * mean, axis=0) / sum_count
    m2 = tl.sum(m2 + count * (mean - center[None, :]) * (mean - center[None, :]), axis=0)
    at = parts_ptr + slot * channels + c
    tl.store(at, center, mask=c < channels)
    tl.store(at + slots * channels, m2, mask=c < channels)
    tl.store(at + 2 * slots * channels, tl.zeros([BLOCK_C], tl.float32) + sum_count, mask=c < channels)


@triton.jit
def join_kernel(
    parts_ptr,
    moments_ptr,
    slots,
    channels,
    pixels,
    total,
    SLOTS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The parts' moments into means and variances, which lie total apart."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    slot = tl.arange(0, SLOTS)[:, None]
    there = (slot < slots) & (c < channels)[None, :]
    at = parts_ptr + slot * channels + c[None, :]
    means = tl.load(at, mask=there, other=0.0)
    m2s = tl.load(at + slots * channels, mask=there, other=0.0)
    counts = tl.load(at + 2 * slots * channels, mask=there, other=0.0)
    mean = tl.sum(counts * means, axis=0) / pixels
    m2 = tl.sum(m2s + counts * (means - mean[None, :]) * (means - mean[None, :]), axis=0)
    tl.store(moments_ptr + c, mean, mask=c < channels)
    tl.store(moments_ptr + total + c, m2 / pixels, mask=c < channels)


@triton.jit
def fold(
    c,
    first,
    moments_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    channels,
    pixels,
    total,
    eps,
    momentum,
):
    """Scale and shift of some channels; the first program of each updates the running statistics."""
    kept = c < channels
    mean = tl.load(moments_ptr + c, mask=kept, other=0.0)
    var = tl.load(moments_ptr + total + c, mask=kept, other=0.0)
    if first:
        old_mean = tl.load(mean_ptr + c, mask=kept).to(tl.float32)
        old_var = tl.load(var_ptr + c, mask=kept).to(tl.float32)
        tl.store(mean_ptr + c, old_mean + momentum * (mean - old_mean), mask=kept)
        tl.store(var_ptr + c, old_var + momentum * (var * (pixels / (pixels - 1)) - old_var), mask=kept)
        if tl.program_id(1) == 0:
            tl.store(batches_ptr, tl.load(batches_ptr) + 1)
    scale = tl.load(weight_ptr + c, mask=kept, other=0.0).to(tl.float32) / tl.sqrt(var + eps)
    return scale, tl.load(bias_ptr + c, mask=kept, other=0.0).to(tl.float32) - mean * scale


@triton.jit
def norm_kernel(
    x_ptr,
    moments_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    y_ptr,
    channels,
    pixels,
    total,
    height,
    width,
    eps,
    momentum,
    SIZE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm and ReLU of the first channels of total channels, and the mean of windows of SIZE x SIZE."""
    out_height, out_width = height // SIZE, width // SIZE
    outs = pixels // (height * width) * (out_height * out_width)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    scale, shift = fold(
        c,
        tl.program_id(0) == 0,
        moments_ptr,
        weight_ptr,
        bias_ptr,
        mean_ptr,
        var_ptr,
        batches_ptr,
        channels,
        pixels,
        total,
        eps,
        momentum,
    )
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    there = (p < outs) & (c < channels)[None, :]
    image = (p // (out_height * out_width)).to(tl.int64)
    row, column = p // out_width % out_height * SIZE, p % out_width * SIZE
    at = x_ptr + ((image * height + row) * width + column) * total + c[None, :]
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(SIZE):
        for j in tl.static_range(SIZE):
            x = tl.load(at + (i * width + j) * total, mask=there, other=0.0).to(tl.float32)
            x = x * scale[None, :] + shift[None, :]
            y += tl.where(x < 0.0, 0.0, x)
    tl.store(y_ptr + p.to(tl.int64) * channels + c[None, :], y * (1.0 / (SIZE * SIZE)), mask=there)


@triton.jit
def norm_pool_kernel(
    x_ptr,
    moments_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    y_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    STRIDE: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm, ReLU, max pooling of 3 x 3 every 2; zero stands for what is outside, since ReLU gives no less."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    scale, shift = fold(
        c,
        tl.program_id(0) == 0,
        moments_ptr,
        weight_ptr,
        bias_ptr,
        mean_ptr,
        var_ptr,
        batches_ptr,
        C,
        P,
        C,
        EPS,
        MOMENTUM,
    )
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    image = p // (OUT_HEIGHT * OUT_WIDTH)
    row, column = p // OUT_WIDTH % OUT_HEIGHT * 2 - 1, p % OUT_WIDTH * 2 - 1
    there = (image < P // (HEIGHT * WIDTH)) & (c < C)[None, :]
    at = x_ptr + ((image.to(tl.int64) * HEIGHT + row) * WIDTH + column) * C + c[None, :]
    y = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            inside = (row + i >= 0) & (row + i < HEIGHT) & (column + j >= 0) & (column + j < WIDTH) & there
            x = tl.load(at + (i * WIDTH + j) * C, mask=inside, other=0.0).to(tl.float32)
            x = x * scale[None, :] + shift[None, :]
            y = tl.maximum(y, tl.where(inside, x, 0.0), propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + p.to(tl.int64) * STRIDE + c[None, :], y, mask=there)


@triton.jit
def mean_kernel(
    x_ptr,
    moments_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    var_ptr,
    batches_ptr,
    y_ptr,
    C: tl.constexpr,
    P: tl.constexpr,
    S: tl.constexpr,
    EPS: tl.constexpr,
    MOMENTUM: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Batch norm, ReLU, and the mean over an image's pixels."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    scale, shift = fold(
        c,
        tl.program_id(0) == 0,
        moments_ptr,
        weight_ptr,
        bias_ptr,
        mean_ptr,
        var_ptr,
        batches_ptr,
        C,
        P,
        C,
        EPS,
        MOMENTUM,
    )
    x_ptr += tl.program_id(0).to(tl.int64) * S * C
    total = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)[:, None]
        there = (s < S) & (c < C)[None, :]
        x = tl.load(x_ptr + s * C + c[None, :], mask=there, other=0.0).to(tl.float32)
        x = x * scale[None, :] + shift[None, :]
        total += tl.where(there & (x > 0.0), x, 0.0)
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


def take_moments(
    x: torch.Tensor,
    channels: int,
    stride: int,
    moments: torch.Tensor,
    first: int,
    out: torch.Tensor | None = None,
) -> None:
    """Put the moments of the channels of x where those of a buffer's channels from the first on lie; may copy x there.

    x has (pixels, stride) numbers, the moments are (2, total), the buffer (pixels, total).
    """
    pixels, total = x.numel() // stride, moments.shape[1]
    block_p, block_c = TILE["PART"], min(64, triton.next_power_of_2(channels))
    slots = min(TILE["SLOTS"], triton.cdiv(pixels, block_p))
    parts = torch.empty((3, slots, channels), device=x.device, dtype=torch.float32)
    moments_kernel[(slots, triton.cdiv(channels, block_c))](
        x,
        x if out is None else out[..., first:],
        parts,
        channels,
        pixels,
        stride,
        total,
        COPY=out is not None,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=TILE["num_warps"],
    )
    join_kernel[(triton.cdiv(channels, 4),)](
        parts,
        moments[:, first:],
        slots,
        channels,
        pixels,
        total,
        SLOTS=triton.next_power_of_2(slots),
        BLOCK_C=4,
        num_warps=4,
    )


def statistics(bn: nn.BatchNorm2d) -> tuple[torch.Tensor, ...]:
    """What a batch norm in training mode reads and updates."""
    return bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.num_batches_tracked


def norm_relu(buffer: torch.Tensor, moments: torch.Tensor, bn: nn.BatchNorm2d, size: int = 1) -> torch.Tensor:
    """Batch norm and ReLU of a buffer's first channels, (batch, height, width, total), and pooling, channels last."""
    batch, height, width, total = buffer.shape
    channels = bn.num_features
    y = torch.empty(
        (batch, channels, height // size, width // size),
        device=buffer.device,
        dtype=buffer.dtype,
        memory_format=torch.channels_last,
    )
    block_p, block_c = TILE["PIXELS"], min(64, triton.next_power_of_2(channels))
    norm_kernel[(triton.cdiv(y.numel() // channels, block_p), triton.cdiv(channels, block_c))](
        buffer,
        moments,
        *statistics(bn),
        y,
        channels,
        batch * height * width,
        total,
        height,
        width,
        bn.eps,
        bn.momentum,
        SIZE=size,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=TILE["num_warps"],
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

    def room(self, batch, height, width, like):
        """A buffer for the block's channels, channels last, and their moments."""
        last = self.layers[-1]
        total = last[0].num_features + last[2].out_channels
        buffer = torch.empty((batch, height, width, total), device=like.device, dtype=like.dtype)
        return buffer, torch.empty((2, total), device=like.device, dtype=torch.float32)

    def forward(self, buffer, moments):
        for bn, _, conv, _ in self.layers:
            y = convolve(norm_relu(buffer, moments, bn), conv)
            take_moments(y, conv.out_channels, conv.out_channels, moments, bn.num_features, buffer)


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

    def forward(self, buffer, moments):
        bn, _, conv, _ = self.transition
        return convolve(norm_relu(buffer, moments, bn, 2), conv)


class Network(nn.Module):
    """The DenseNet-121 classifier built from plain dense blocks."""

    def __init__(self, growth_rate=32, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        num_features = 64
        block_sizes = [6, 12, 24, 16]
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

    def stem(self, x):
        """The first convolution, batch norm, ReLU and pooling, as the first block's buffer and moments."""
        conv, bn, _, _ = self.features
        y = convolve(channels_last(x), conv)
        batch, channels, height, width = y.shape
        moments = torch.empty((2, channels), device=x.device, dtype=torch.float32)
        take_moments(y, channels, channels, moments, 0)
        sides = (height - 1) // 2 + 1, (width - 1) // 2 + 1
        buffer, block_moments = self.dense_blocks[0].room(batch, *sides, x)
        norm_pool_kernel[(triton.cdiv(batch * sides[0] * sides[1], 16), triton.cdiv(channels, 64))](
            y,
            moments,
            *statistics(bn),
            buffer,
            C=channels,
            P=batch * height * width,
            HEIGHT=height,
            WIDTH=width,
            OUT_HEIGHT=sides[0],
            OUT_WIDTH=sides[1],
            STRIDE=buffer.shape[-1],
            EPS=bn.eps,
            MOMENTUM=bn.momentum,
            BLOCK_P=16,
            BLOCK_C=64,
            num_warps=4,
        )
        take_moments(buffer, channels, buffer.shape[-1], block_moments, 0)
        return buffer, block_moments

    def forward(self, x):
        buffer, moments = self.stem(x)
        for index, block in enumerate(self.dense_blocks):
            block(buffer, moments)
            if index < len(self.transition_layers):
                y = self.transition_layers[index](buffer, moments)
                batch, channels, height, width = y.shape
                buffer, moments = self.dense_blocks[index + 1].room(batch, height, width, x)
                take_moments(y, channels, channels, moments, 0, buffer)
        batch, height, width, channels = buffer.shape
        bn = self.final_bn
        pooled = torch.empty((batch, channels), device=x.device, dtype=x.dtype)
        mean_kernel[(batch, triton.cdiv(channels, 32))](
            buffer,
            moments,
            *statistics(bn),
            pooled,
            C=channels,
            P=batch * height * width,
            S=height * width,
            EPS=bn.eps,
            MOMENTUM=bn.momentum,
            BLOCK_S=64,
            BLOCK_C=32,
            num_warps=4,
        )
        return self.classifier(pooled)


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
