"""VGG-19 with maps that have the channels innermost, as tensor cores want them.

Bias, ReLU and max pooling happen on the accumulators of the convolutions: four pixels in a row of a tile are a pooling
window. The linear layers, of which the weights are all the work, are split along the depth over all multiprocessors.
Eager PyTorch passes over every map for its bias, its ReLU and its pooling.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "first": {"BLOCK_P": 256, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 8, "num_stages": 1},
    "large": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3},
    "narrow": {"BLOCK_P": 256, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    "small": {"BLOCK_P": 64, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4},
    "linear": {"BLOCK_N": 64, "BLOCK_K": 64, "SPLIT": 16, "num_warps": 4, "num_stages": 6},
}


@triton.jit
def rounded(x):
    """PyTorch rounds a convolution before it adds the bias."""
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def first_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
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
        y = tl.dot(x, tl.trans(w), y)
    y = rounded(y) + tl.load(bias_ptr + out, mask=out < OUTS, other=0.0).to(tl.float32)[None, :]
    y = tl.where(y < 0.0, 0.0, y)
    tl.store(
        out_ptr + pixel[:, None] * OUTS + out[None, :],
        y,
        mask=(pixel < pixels)[:, None] & (out < OUTS)[None, :],
    )


@triton.jit
def spatial_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
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
    pooling if asked for: then four pixels in a row of the tile are a window. Weights are (tap, output, input)."""
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
        x = tl.load(x_ptr + offsets, mask=near[:, None] & within[None, :], other=0.0)
        w_mask = (out < OUTS)[:, None] & within[None, :]
        w = tl.load(
            weight_ptr + (tap * OUTS + out)[:, None] * CHANNELS + channel[None, :], mask=w_mask, other=0.0
        )
        y = tl.dot(x, tl.trans(w), y)
    y = rounded(y) + tl.load(bias_ptr + out, mask=out < OUTS, other=0.0).to(tl.float32)[None, :]
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
    else:
        offsets = spot[:, None] * OUTS + out[None, :]
    tl.store(out_ptr + offsets, y, mask=inside)


def first(x: torch.Tensor, conv: nn.Conv2d, tile: dict) -> torch.Tensor:
    """ReLU of the convolution of maps (sample, channel, row, column) as (sample, row, column, channel)."""
    batch, channels, height, width = x.shape
    size, stride, padding, outs = conv.kernel_size[0], conv.stride[0], conv.padding[0], conv.out_channels
    out_height, out_width = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    out = torch.empty((batch, out_height, out_width, outs), device=x.device, dtype=x.dtype)
    if max(x.numel(), out.numel()) >= 2**31:
        raise ValueError("this kernel is written for maps of less than 2^31 numbers")
    pixels = batch * out_height * out_width
    first_kernel[(triton.cdiv(pixels, tile["BLOCK_P"]) * triton.cdiv(outs, tile["BLOCK_N"]),)](
        x,
        conv.weight,
        conv.bias,
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
    x: torch.Tensor, conv: nn.Conv2d, tile: dict, pool: bool = False, flat: bool = False
) -> torch.Tensor:
    """ReLU of the convolution of maps (sample, row, column, channel), with 2x2 max pooling if asked for."""
    batch, height, width, channels = x.shape
    outs, size = conv.out_channels, conv.kernel_size[0]
    if pool and (height % 2 or width % 2):
        raise ValueError("this kernel is written for maps of even height and width before pooling")
    shape = (batch, height // 2, width // 2, outs) if pool else (batch, height, width, outs)
    out = torch.empty(shape, device=x.device, dtype=x.dtype)
    if max(x.numel(), batch * height * width * outs) >= 2**31:
        raise ValueError("this kernel is written for maps of less than 2^31 numbers")
    pixels = batch * height * width
    spatial_kernel[(triton.cdiv(pixels, tile["BLOCK_P"]) * triton.cdiv(outs, tile["BLOCK_N"]),)](
        x,
        conv.weight.permute(2, 3, 0, 1).contiguous(),
        conv.bias,
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
    return out.view(batch, -1) if flat else out


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
        y = tl.dot(x, tl.trans(w), y)
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
    y += tl.load(bias_ptr + lanes % N, mask=mask, other=0.0).to(tl.float32)
    if RELU:
        y = tl.where(y < 0.0, 0.0, y)
    tl.store(out_ptr + lanes, y, mask=mask)


def linear(x: torch.Tensor, layer: nn.Linear, relu: bool) -> torch.Tensor:
    """x W^T + b, with ReLU if asked for."""
    (m, k), n = x.shape, layer.out_features
    tile = TILE["linear"]
    parts = torch.empty((tile["SPLIT"], m, n), device=x.device, dtype=torch.float32)
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
        x = first(x.contiguous(), layers[places[0]], TILE["first"])
        for index in places[1:]:
            conv = layers[index]
            pool = isinstance(layers[index + 2], nn.MaxPool2d)
            name = "narrow" if conv.out_channels <= 64 else "large"
            if x.shape[0] * x.shape[1] * x.shape[2] < 4096:
                name = "small"
            x = spatial(x, conv, TILE[name], pool=pool, flat=index == places[-1])
        x = linear(x, self.classifier[0], True)
        x = linear(x, self.classifier[3], True)
        return linear(x, self.classifier[6], False)
