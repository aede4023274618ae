"""VGG-19 with maps that have the channels innermost, as tensor cores want them, with the accuracy of fp32.

Bias, ReLU and max pooling happen on the accumulators of the convolutions: four pixels in a row of a tile are a pooling
window. Maps and weights are brought to a fixed range by a power of two and kept as the sum of two fp16 numbers (22
bits), and a convolution is three fp16 products. A map's power of two is known before the map is: from the largest
number of the map before it, and the largest sum of a filter's magnitudes. Tensor cores cut off what they add to a sum,
so each block has a sum of its own, which fp32 adds to the others. The linear layers, of which the weights are all the
work, are split along the depth over all multiprocessors and take three TF32 products. Eager PyTorch passes over every
map for its bias, its ReLU and its pooling.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "first": {"BLOCK_P": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 1},
    "large": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    "narrow": {"BLOCK_P": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 4},
    "small": {"BLOCK_P": 64, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3},
    "linear": {"BLOCK_N": 64, "BLOCK_K": 64, "SPLIT": 16, "num_warps": 4, "num_stages": 4},
}


@triton.jit
def scale_bits(top):
    """The exponent of the power of two that brings this magnitude to 2^14, which fp16 still holds."""
    return tl.minimum(268 - (top.to(tl.int32, bitcast=True) >> 23), 253)


@triton.jit
def power(bits):
    return (bits << 23).to(tl.float32, bitcast=True)


@triton.jit
def top_kernel(x_ptr, state_ptr, size, BLOCK: tl.constexpr):
    """The largest magnitude of all."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < size, other=0.0)
    tl.atomic_max(state_ptr, tl.max(tl.abs(x).to(tl.int32, bitcast=True), axis=0))


@triton.jit
def filter_kernel(weight_ptr, bias_ptr, state_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """The largest weight, the largest sum of a filter's magnitudes, and the largest bias, as bits."""
    out = tl.program_id(0)
    top = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, SIZE, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        w = tl.abs(tl.load(weight_ptr + out * SIZE + inner, mask=inner < SIZE, other=0.0))
        top = tl.maximum(top, w)
        total += w
    tl.atomic_max(state_ptr + 1, tl.max(top, axis=0).to(tl.int32, bitcast=True))
    tl.atomic_max(state_ptr + 2, tl.sum(total, axis=0).to(tl.int32, bitcast=True))
    tl.atomic_max(state_ptr + 3, tl.abs(tl.load(bias_ptr + out)).to(tl.int32, bitcast=True))


@triton.jit
def pack_kernel(
    weight_ptr,
    state_ptr,
    parts_ptr,
    OUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as (part, tap, output, input)."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = index < OUTS * CHANNELS * TAPS
    tap, filter = index // (OUTS * CHANNELS), index % (OUTS * CHANNELS)
    w = tl.load(weight_ptr + filter * TAPS + tap, mask=kept, other=0.0)
    w *= power(scale_bits(tl.load(state_ptr + 1)))
    high = w.to(tl.float16)
    tl.store(parts_ptr + index, high, mask=kept)
    tl.store(parts_ptr + OUTS * CHANNELS * TAPS + index, (w - high.to(tl.float32)).to(tl.float16), mask=kept)


@triton.jit
def bound_bits(state_ptr):
    """The exponent of the scale of a layer's result, of which no number is larger than this bound."""
    top = tl.load(state_ptr).to(tl.float32, bitcast=True)
    total = tl.load(state_ptr + 2).to(tl.float32, bitcast=True)
    return scale_bits(top * total + tl.load(state_ptr + 3).to(tl.float32, bitcast=True))


@triton.jit
def store_map(out_ptr, state_ptr, y, offsets, inside, size):
    """Store a part of a map as high and low parts; its largest number goes to the next layer's state."""
    tl.atomic_max(
        state_ptr + 8, tl.max(tl.max(tl.where(inside, y, 0.0), axis=0), axis=0).to(tl.int32, bitcast=True)
    )
    scale = bound_bits(state_ptr)
    tl.store(state_ptr + 12, 254 - scale)
    y *= power(scale)
    high = y.to(tl.float16)
    tl.store(out_ptr + offsets, high, mask=inside)
    tl.store(out_ptr + size + offsets, (y - high.to(tl.float32)).to(tl.float16), mask=inside)


@triton.jit
def first_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    state_ptr,
    out_ptr,
    pixels,
    CHANNELS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    OUTS: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A convolution of few channels with bias and ReLU; its result has the channels innermost."""
    whole: tl.constexpr = CHANNELS * SIZE * SIZE
    tiles: tl.constexpr = (OUTS + BLOCK_N - 1) // BLOCK_N
    out = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(0) // tiles * BLOCK_P + tl.arange(0, BLOCK_P)
    place = pixel % (OUT_HEIGHT * OUT_WIDTH)
    row = place // OUT_WIDTH * STRIDE - PADDING
    column = place % OUT_WIDTH * STRIDE - PADDING
    corner = pixel // (OUT_HEIGHT * OUT_WIDTH) * (CHANNELS * HEIGHT * WIDTH) + row * WIDTH + column
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for start in range(0, whole, BLOCK_K):
        inner = start + depth
        channel, tap = inner // (SIZE * SIZE), inner % (SIZE * SIZE)
        down, across = tap // SIZE, tap % SIZE
        near_row, near_column = row[:, None] + down[None, :], column[:, None] + across[None, :]
        inside = (near_row >= 0) & (near_row < HEIGHT) & (near_column >= 0) & (near_column < WIDTH)
        inside = inside & (pixel < pixels)[:, None] & (inner < whole)[None, :]
        offsets = corner[:, None] + (channel * (HEIGHT * WIDTH) + down * WIDTH + across)[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
        w_mask = (out < OUTS)[:, None] & (inner < whole)[None, :]
        w = tl.load(weight_ptr + out[:, None] * whole + inner[None, :], mask=w_mask, other=0.0)
        y = tl.dot(x, tl.trans(w), y, input_precision="tf32x3")
    y += tl.load(bias_ptr + out, mask=out < OUTS, other=0.0)[None, :]
    y = tl.where(y < 0.0, 0.0, y)
    inside = (pixel < pixels)[:, None] & (out < OUTS)[None, :]
    store_map(out_ptr, state_ptr, y, pixel[:, None] * OUTS + out[None, :], inside, pixels * OUTS)


@triton.jit
def spatial_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    state_ptr,
    out_ptr,
    pixels,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    SIZE: tl.constexpr,
    POOL: tl.constexpr,
    FLAT: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A convolution that keeps the size of its maps, which have the channels innermost, with bias and ReLU, and 2x2 max
    pooling if asked for: then four pixels in a row of the tile are a window. Weights are (part, tap, output, input)."""
    chunks: tl.constexpr = (CHANNELS + BLOCK_K - 1) // BLOCK_K
    tiles: tl.constexpr = (OUTS + BLOCK_N - 1) // BLOCK_N
    out = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(0) // tiles * BLOCK_P + tl.arange(0, BLOCK_P)
    if POOL:
        window, corner = pixel // 4, pixel % 4
        down_windows: tl.constexpr = HEIGHT // 2
        across_windows: tl.constexpr = WIDTH // 2
        sample, place = window // (down_windows * across_windows), window % (down_windows * across_windows)
        row, column = place // across_windows * 2 + corner // 2, place % across_windows * 2 + corner % 2
    else:
        sample, place = pixel // (HEIGHT * WIDTH), pixel % (HEIGHT * WIDTH)
        row, column = place // WIDTH, place % WIDTH
    center = ((sample * HEIGHT + row) * WIDTH + column) * CHANNELS
    row = tl.where(pixel < pixels, row, -HEIGHT - SIZE)
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for step in range(SIZE * SIZE * chunks):
        tap = step // chunks
        channel = step % chunks * BLOCK_K + depth
        down, across = tap // SIZE - SIZE // 2, tap % SIZE - SIZE // 2
        near_row, near_column = row + down, column + across
        near = (near_row >= 0) & (near_row < HEIGHT) & (near_column >= 0) & (near_column < WIDTH)
        within = channel < CHANNELS
        offsets = (center + (down * WIDTH + across) * CHANNELS)[:, None] + channel[None, :]
        x_mask = near[:, None] & within[None, :]
        x_high = tl.load(x_ptr + offsets, mask=x_mask, other=0.0)
        x_low = tl.load(x_ptr + pixels * CHANNELS + offsets, mask=x_mask, other=0.0)
        w_mask = (out < OUTS)[:, None] & within[None, :]
        w_ptrs = weight_ptr + (tap * OUTS + out)[:, None] * CHANNELS + channel[None, :]
        w_high = tl.load(w_ptrs, mask=w_mask, other=0.0)
        w_low = tl.load(w_ptrs + SIZE * SIZE * OUTS * CHANNELS, mask=w_mask, other=0.0)
        part = tl.dot(x_low, tl.trans(w_high))
        part = tl.dot(x_high, tl.trans(w_low), part)
        y += tl.dot(x_high, tl.trans(w_high), part)
    y *= power(tl.load(state_ptr + 4))
    y *= power(254 - scale_bits(tl.load(state_ptr + 1)))
    y += tl.load(bias_ptr + out, mask=out < OUTS, other=0.0)[None, :]
    y = tl.where(y < 0.0, 0.0, y)
    if POOL:
        y = tl.max(tl.reshape(y, [BLOCK_P // 4, 4, BLOCK_N]), axis=1)
        spot = tl.program_id(0) // tiles * (BLOCK_P // 4) + tl.arange(0, BLOCK_P // 4)
        places: tl.constexpr = (HEIGHT // 2) * (WIDTH // 2)
        inside = (spot < pixels // 4)[:, None] & (out < OUTS)[None, :]
    else:
        spot = pixel
        places: tl.constexpr = HEIGHT * WIDTH
        inside = (spot < pixels)[:, None] & (out < OUTS)[None, :]
    if FLAT:
        offsets = (spot // places * (OUTS * places) + spot % places)[:, None] + out[None, :] * places
        tl.store(out_ptr + offsets, y, mask=inside)
    else:
        size = pixels * OUTS
        if POOL:
            size = pixels // 4 * OUTS
        store_map(out_ptr, state_ptr, y, spot[:, None] * OUTS + out[None, :], inside, size)


def weigh(conv: nn.Conv2d, state: torch.Tensor) -> None:
    """Put the largest weight, filter and bias of a layer into its state."""
    size = conv.weight[0].numel()
    filter_kernel[(conv.out_channels,)](conv.weight, conv.bias, state, SIZE=size, BLOCK=1024, num_warps=4)


def first(x: torch.Tensor, conv: nn.Conv2d, state: torch.Tensor, tile: dict) -> torch.Tensor:
    """ReLU of the convolution of maps (sample, channel, row, column) as (part, sample, row, column, channel)."""
    batch, channels, height, width = x.shape
    size, stride, padding, outs = conv.kernel_size[0], conv.stride[0], conv.padding[0], conv.out_channels
    out_height, out_width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    out = torch.empty((2, batch, out_height, out_width, outs), device=x.device, dtype=torch.float16)
    if max(x.numel(), out.numel()) >= 2**31:
        raise ValueError("this kernel is written for maps of less than 2^31 numbers")
    top_kernel[(triton.cdiv(x.numel(), 4096),)](x, state, x.numel(), BLOCK=4096, num_warps=8)
    weigh(conv, state)
    pixels = batch * out_height * out_width
    first_kernel[(triton.cdiv(pixels, tile["BLOCK_P"]) * triton.cdiv(outs, tile["BLOCK_N"]),)](
        x,
        conv.weight,
        conv.bias,
        state,
        out,
        pixels,
        CHANNELS=channels,
        HEIGHT=height,
        WIDTH=width,
        OUT_HEIGHT=out_height,
        OUT_WIDTH=out_width,
        OUTS=outs,
        SIZE=size,
        STRIDE=stride,
        PADDING=padding,
        **tile,
    )
    return out


def spatial(
    x: torch.Tensor, conv: nn.Conv2d, state: torch.Tensor, tile: dict, pool: bool = False, flat: bool = False
) -> torch.Tensor:
    """ReLU of the convolution of maps (part, sample, row, column, channel), with 2x2 max pooling if asked for."""
    _, batch, height, width, channels = x.shape
    outs, size = conv.out_channels, conv.kernel_size[0]
    if pool and (height % 2 or width % 2):
        raise ValueError("this kernel is written for maps of even height and width before pooling")
    if pool and not flat:
        out = torch.empty((2, batch, height // 2, width // 2, outs), device=x.device, dtype=torch.float16)
    elif pool:
        out = torch.empty((batch, height // 2 * (width // 2) * outs), device=x.device, dtype=torch.float32)
    else:
        out = torch.empty((2, batch, height, width, outs), device=x.device, dtype=torch.float16)
    if max(x.numel(), 2 * batch * height * width * outs) >= 2**31:
        raise ValueError("this kernel is written for maps of less than 2^31 numbers")
    weigh(conv, state)
    parts = torch.empty((2, conv.weight.numel()), device=x.device, dtype=torch.float16)
    pack_kernel[(triton.cdiv(conv.weight.numel(), 1024),)](
        conv.weight,
        state,
        parts,
        OUTS=outs,
        CHANNELS=channels,
        TAPS=size * size,
        BLOCK=1024,
        num_warps=4,
    )
    pixels = batch * height * width
    spatial_kernel[(triton.cdiv(pixels, tile["BLOCK_P"]) * triton.cdiv(outs, tile["BLOCK_N"]),)](
        x,
        parts,
        conv.bias,
        state,
        out,
        pixels,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        OUTS=outs,
        SIZE=size,
        POOL=pool,
        FLAT=flat,
        **tile,
    )
    return out


@triton.jit
def linear_kernel(
    x_ptr,
    weight_ptr,
    part_ptr,
    M,
    N,
    K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """A part of the depth of x W^T for sixteen rows."""
    span: tl.constexpr = (K + SPLIT * BLOCK_K - 1) // (SPLIT * BLOCK_K) * BLOCK_K
    row = tl.program_id(2) * 16 + tl.arange(0, 16)
    out = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    y = tl.zeros([16, BLOCK_N], tl.float32)
    for start in range(0, span, BLOCK_K):
        inner = tl.program_id(1) * span + start + depth
        x_mask = (row < M)[:, None] & (inner < K)[None, :]
        w_mask = (out < N)[:, None] & (inner < K)[None, :]
        x = tl.load(x_ptr + row[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(weight_ptr + out.to(tl.int64)[:, None] * K + inner[None, :], mask=w_mask, other=0.0)
        y = tl.dot(x, tl.trans(w), y, input_precision="tf32x3")
    offsets = (tl.program_id(1) * M + row)[:, None] * N + out[None, :]
    tl.store(part_ptr + offsets, y, mask=(row < M)[:, None] & (out < N)[None, :])


@triton.jit
def join_kernel(
    part_ptr, bias_ptr, out_ptr, size, N, SPLIT: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr
):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < size
    y = tl.zeros([BLOCK], tl.float32)
    for part in range(SPLIT):
        y += tl.load(part_ptr + part * size + lanes, mask=mask, other=0.0)
    y += tl.load(bias_ptr + lanes % N, mask=mask, other=0.0)
    if RELU:
        y = tl.where(y < 0.0, 0.0, y)
    tl.store(out_ptr + lanes, y, mask=mask)


def linear(x: torch.Tensor, layer: nn.Linear, relu: bool) -> torch.Tensor:
    """x W^T + b, with ReLU if asked for."""
    (m, k), n = x.shape, layer.out_features
    tile = TILE["linear"]
    parts = torch.empty((tile["SPLIT"], m, n), device=x.device, dtype=x.dtype)
    linear_kernel[(triton.cdiv(n, tile["BLOCK_N"]), tile["SPLIT"], triton.cdiv(m, 16))](
        x, layer.weight, parts, m, n, K=k, **tile
    )
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    join_kernel[(triton.cdiv(m * n, 256),)](
        parts, layer.bias, out, m * n, n, SPLIT=tile["SPLIT"], RELU=relu, BLOCK=256, num_warps=4
    )
    return out


class ModelNew(nn.Module):
    """The VGG-19 classifier without batch norm."""

    def __init__(self, num_classes=1000):
        super().__init__()
        features = []
        in_channels = 3
        for channels, convolutions in zip((64, 128, 256, 512, 512), (2, 2, 4, 4, 4)):
            for _ in range(convolutions):
                features += [
                    nn.Conv2d(in_channels, channels, kernel_size=3, padding=1),
                    nn.ReLU(inplace=True),
                ]
                in_channels = channels
            features.append(nn.MaxPool2d(kernel_size=2, stride=2))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=0.0),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=0.0),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x):
        layers = list(self.features)
        places = [index for index, layer in enumerate(layers) if isinstance(layer, nn.Conv2d)]
        # A row for each layer, as bits: the largest number of its input, its largest weight, filter and bias, and the
        # exponent that brings its input back.
        state = torch.zeros((len(places) + 1, 8), device=x.device, dtype=torch.int32)
        x = first(x.contiguous(), layers[places[0]], state[0], TILE["first"])
        for layer, index in enumerate(places[1:], 1):
            conv = layers[index]
            pool = isinstance(layers[index + 2], nn.MaxPool2d)
            name = "narrow" if conv.out_channels <= 64 else "large"
            if x.shape[1] * x.shape[2] * x.shape[3] < 4096:
                name = "small"
            x = spatial(x, conv, state[layer], TILE[name], pool=pool, flat=index == places[-1])
        x = linear(x, self.classifier[0], True)
        x = linear(x, self.classifier[3], True)
        return linear(x, self.classifier[6], False)
