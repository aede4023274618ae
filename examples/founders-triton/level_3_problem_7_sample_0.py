"""GoogLeNet with channels last from end to end, as cuDNN convolves fastest, and without its passes for biases and for
the concatenation: an Inception block's three 1x1 convolutions of the input are one, one kernel adds their biases as it
takes them apart, and one adds the others' as it writes them where the concatenation wants them. Bias, ReLU and max
pooling are one kernel too. All of it is launched as one CUDA graph.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"PIXELS": 16, "CHANNELS": 64, "POOLED": 4, "num_warps": 2}
"""A tile's pixels and channels, and its pixels where it pools."""


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
def apart_kernel(
    x_ptr,
    bias_ptr,
    first_ptr,
    second_ptr,
    third_ptr,
    pixels,
    total,
    firsts,
    seconds,
    thirds,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """x with its bias, [pixels, channels], into the first channels of one map, [pixels, total], and two others."""
    channels = firsts + seconds + thirds
    p = (tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    there = (p < pixels) & (c < channels)
    x = tl.load(x_ptr + p * channels + c, mask=there) + tl.load(bias_ptr + c, mask=c < channels)
    tl.store(first_ptr + p * total + c, x, mask=there & (c < firsts))
    c -= firsts
    tl.store(second_ptr + p * seconds + c, x, mask=there & (c >= 0) & (c < seconds))
    c -= seconds
    tl.store(third_ptr + p * thirds + c, x, mask=there & (c >= 0))


@triton.jit
def together_kernel(
    first_ptr,
    second_ptr,
    third_ptr,
    bias_ptr,
    y_ptr,
    pixels,
    total,
    firsts,
    seconds,
    thirds,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Three maps with their biases into neighbouring channels of one of [pixels, total]."""
    channels = firsts + seconds + thirds
    p = (tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    there = (p < pixels) & (c < channels)
    x = tl.load(first_ptr + p * firsts + c, mask=there & (c < firsts), other=0.0)
    k = c - firsts
    x += tl.load(second_ptr + p * seconds + k, mask=there & (k >= 0) & (k < seconds), other=0.0)
    k -= seconds
    x += tl.load(third_ptr + p * thirds + k, mask=there & (k >= 0), other=0.0)
    x += tl.load(bias_ptr + c, mask=c < channels)
    tl.store(y_ptr + p * total + c, x, mask=there)


@triton.jit
def bias_relu_kernel(x_ptr, bias_ptr, pixels, channels, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):
    """Bias and ReLU in place."""
    p = (tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    there = (p < pixels) & (c < channels)
    x = tl.load(x_ptr + p * channels + c, mask=there) + tl.load(bias_ptr + c, mask=c < channels)
    tl.store(x_ptr + p * channels + c, tl.where(x < 0.0, 0.0, x), mask=there)


@triton.jit
def pool_kernel(
    x_ptr,
    bias_ptr,
    y_ptr,
    outs,
    channels,
    height,
    width,
    out_height,
    out_width,
    STRIDE: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The maxima of 3 x 3 windows every STRIDE, of the map or of the ReLU of it and its bias."""
    p = (tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P))[:, None]
    c = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    there = (p < outs) & (c < channels)
    image = p // (out_height * out_width)
    row, column = p // out_width % out_height * STRIDE - 1, p % out_width * STRIDE - 1
    at = x_ptr + ((image * height + row) * width + column) * channels + c
    y = tl.full([BLOCK_P, BLOCK_C], float("-inf"), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            inside = (row + i >= 0) & (row + i < height) & (column + j >= 0) & (column + j < width) & there
            x = tl.load(at + (i * width + j) * channels, mask=inside, other=float("-inf"))
            y = tl.maximum(y, x, propagate_nan=tl.PropagateNan.ALL)
    if RELU:
        y += tl.load(bias_ptr + c, mask=c < channels)
        y = tl.where(y < 0.0, 0.0, y)
    tl.store(y_ptr + p * channels + c, y, mask=there)


@triton.jit
def mean_kernel(x_ptr, y_ptr, channels, space, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr):
    """The mean over an image's pixels."""
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    x_ptr += tl.program_id(0) * space * channels
    total = tl.zeros([BLOCK_S, BLOCK_C], tl.float32)
    for start in range(0, space, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)[:, None]
        there = (s < space) & (c < channels)[None, :]
        total += tl.load(x_ptr + s * channels + c[None, :], mask=there, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * channels + c, tl.sum(total, axis=0) / space, mask=c < channels)


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
    """A convolution from channels last to channels last, without its bias."""
    y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding)
    return y.contiguous(memory_format=torch.channels_last)


def room(x: torch.Tensor, channels: int, height: int, width: int) -> torch.Tensor:
    """A map of as many images, channels last."""
    shape = (x.shape[0], channels, height, width)
    return torch.empty(shape, device=x.device, dtype=x.dtype, memory_format=torch.channels_last)


def blocks(pixels: int, channels: int) -> tuple[int, int]:
    """The grid of TILE's tiles."""
    return triton.cdiv(pixels, TILE["PIXELS"]), triton.cdiv(channels, TILE["CHANNELS"])


def sizes() -> dict[str, int]:
    """TILE as the kernels of [pixels, channels] take it."""
    return {"BLOCK_P": TILE["PIXELS"], "BLOCK_C": TILE["CHANNELS"], "num_warps": TILE["num_warps"]}


def bias_relu_(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """Bias and ReLU in place."""
    channels = x.shape[1]
    pixels = x.numel() // channels
    bias_relu_kernel[blocks(pixels, channels)](x, conv.bias, pixels, channels, **sizes())
    return x


def max_pool(x: torch.Tensor, stride: int, conv: nn.Conv2d | None = None) -> torch.Tensor:
    """Windows of 3 x 3, padded by 1; with the bias of a convolution and ReLU where one is given."""
    _, channels, height, width = x.shape
    y = room(x, channels, (height - 1) // stride + 1, (width - 1) // stride + 1)
    outs = y.numel() // channels
    pool_kernel[(triton.cdiv(outs, TILE["POOLED"]), triton.cdiv(channels, TILE["CHANNELS"]))](
        x,
        x if conv is None else conv.bias,
        y,
        outs,
        channels,
        height,
        width,
        y.shape[2],
        y.shape[3],
        STRIDE=stride,
        RELU=conv is not None,
        BLOCK_P=TILE["POOLED"],
        BLOCK_C=TILE["CHANNELS"],
        num_warps=TILE["num_warps"],
    )
    return y


class InceptionModule(nn.Module):
    """Four parallel branches (1x1, 3x3, 5x5, pooled) joined along the channels."""

    def __init__(self, in_channels, out_1x1, reduce_3x3, out_3x3, reduce_5x5, out_5x5, pool_proj):
        super().__init__()
        self.branch1x1 = nn.Conv2d(in_channels, out_1x1, kernel_size=1)
        self.branch3x3 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_3x3, kernel_size=1),
            nn.Conv2d(reduce_3x3, out_3x3, kernel_size=3, padding=1),
        )
        self.branch5x5 = nn.Sequential(
            nn.Conv2d(in_channels, reduce_5x5, kernel_size=1),
            nn.Conv2d(reduce_5x5, out_5x5, kernel_size=5, padding=2),
        )
        self.branch_pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x):
        height, width = x.shape[2:]
        pixels = x.shape[0] * height * width
        whole, (reduce3, conv3), (reduce5, conv5), pool = (
            self.branch1x1,
            self.branch3x3,
            self.branch5x5,
            self.branch_pool[1],
        )
        three = whole, reduce3, reduce5
        firsts, seconds, thirds = counts = [conv.out_channels for conv in three]
        weight = torch.cat([conv.weight for conv in three])
        y = F.conv2d(x, weight.contiguous(memory_format=torch.channels_last))
        y = y.contiguous(memory_format=torch.channels_last)
        others = conv3, conv5, pool
        total = firsts + sum(conv.out_channels for conv in others)
        out = room(x, total, height, width)
        middle, small = room(x, seconds, height, width), room(x, thirds, height, width)
        bias = torch.cat([conv.bias for conv in three])
        apart_kernel[blocks(pixels, sum(counts))](
            y, bias, out, middle, small, pixels, total, *counts, **sizes()
        )
        counts = [conv.out_channels for conv in others]
        together_kernel[blocks(pixels, sum(counts))](
            convolve(middle, conv3),
            convolve(small, conv5),
            convolve(max_pool(x, 1), pool),
            torch.cat([conv.bias for conv in others]),
            out.permute(0, 2, 3, 1)[..., firsts:],
            pixels,
            total,
            *counts,
            **sizes(),
        )
        return out


class Network(nn.Module):
    """The GoogLeNet classifier without auxiliary heads."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(64, 64, kernel_size=1)
        self.conv3 = nn.Conv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, padding=1)
        self.inception3a = InceptionModule(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = InceptionModule(256, 128, 128, 192, 32, 96, 64)
        self.maxpool3 = nn.MaxPool2d(3, stride=2, padding=1)
        self.inception4a = InceptionModule(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = InceptionModule(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = InceptionModule(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = InceptionModule(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = InceptionModule(528, 256, 160, 320, 32, 128, 128)
        self.maxpool4 = nn.MaxPool2d(3, stride=2, padding=1)
        self.inception5a = InceptionModule(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = InceptionModule(832, 384, 192, 384, 48, 128, 128)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(1024, num_classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = max_pool(convolve(channels_last(x), self.conv1), 2, self.conv1)
        x = bias_relu_(convolve(x, self.conv2), self.conv2)
        x = max_pool(convolve(x, self.conv3), 2, self.conv3)
        x = max_pool(self.inception3b(self.inception3a(x)), 2)
        for block in (
            self.inception4a,
            self.inception4b,
            self.inception4c,
            self.inception4d,
            self.inception4e,
        ):
            x = block(x)
        x = self.inception5b(self.inception5a(max_pool(x, 2)))
        batch, channels, height, width = x.shape
        pooled = torch.empty((batch, channels), device=x.device, dtype=x.dtype)
        mean_kernel[(batch, triton.cdiv(channels, 32))](
            x, pooled, channels, height * width, BLOCK_S=64, BLOCK_C=32, num_warps=4
        )
        return F.linear(pooled, self.fc.weight, self.fc.bias)


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
