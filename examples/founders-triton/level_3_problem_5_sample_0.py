"""AlexNet with maps that have the channels innermost, as cuDNN convolves fastest (in TF32).

The first convolution is a kernel of our own, with bias and ReLU on its accumulators. cuDNN takes the others without
their biases: pooling adds bias and ReLU to the maximum as it goes, and one pass does where nothing is pooled. The
linear layers take three fp16 products of numbers split into two parts, which keeps the accuracy of fp32; short runs
are added up in fp32. Eager PyTorch passes over every map for its bias and its ReLU, lays maps out anew, and multiplies
the linear layers without tensor cores.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

DEPTH = 64
TILE = {
    "first": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3},
    "pool": {"BLOCK_P": 8, "num_warps": 4},
    "relu": {"BLOCK": 2048, "num_warps": 4},
    "linear": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3},
}


@triton.jit
def split_rows_kernel(
    x_ptr,
    parts_ptr,
    unscale_ptr,
    rows,
    K,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = row[:, None] < rows
    x = tl.load(x_ptr + row[:, None] * K + column[None, :], mask=inside & (column[None, :] < K), other=0.0)
    exponent = tl.max(tl.abs(x), axis=1).to(tl.int32, bitcast=True) >> 23
    scale = tl.minimum(268 - exponent, 253)
    tl.store(unscale_ptr + row, ((254 - scale) << 23).to(tl.float32, bitcast=True), mask=row < rows)
    x *= (scale << 23).to(tl.float32, bitcast=True)[:, None]
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    parts = parts_ptr + row[:, None] * (2 * PADDED) + column[None, :]
    inside = inside & (column[None, :] < PADDED)
    tl.store(parts, high, mask=inside)
    tl.store(parts + PADDED, low, mask=inside)


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
    a_unscale_ptr,
    w_unscale_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    PADDED: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    group = tl.minimum(tiles_m - first_m, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    tile_m, tile_n = first_m + within % group, within // group
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % M).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * (2 * PADDED) + depth[None, :]
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, PADDED, BLOCK_K):
        a_high = tl.load(a_ptrs)
        a_low = tl.load(a_ptrs + PADDED)
        w_high = tl.load(w_ptrs)
        w_low = tl.load(w_ptrs + PADDED)
        part = tl.dot(a_low, tl.trans(w_high))
        part = tl.dot(a_high, tl.trans(w_low), part)
        x += tl.dot(a_high, tl.trans(w_high), part)
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    x *= tl.load(a_unscale_ptr + rows % M)[:, None]
    x *= tl.load(w_unscale_ptr + columns % N)[None, :]
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if RELU:
        x = tl.where(x < 0.0, 0.0, x)
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + offsets, x, mask=mask)


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
        y = tl.dot(x, tl.trans(w), y, input_precision="tf32")
    y += tl.load(bias_ptr + out, mask=out < OUTS, other=0.0)[None, :]
    y = tl.where(y < 0.0, 0.0, y)
    tl.store(
        out_ptr + pixel[:, None] * OUTS + out[None, :],
        y,
        mask=(pixel < pixels)[:, None] & (out < OUTS)[None, :],
    )


@triton.jit
def bias_relu_kernel(x_ptr, bias_ptr, numbers, channels, BLOCK: tl.constexpr):
    """Bias and ReLU in place, the channels innermost."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < numbers
    x = tl.load(x_ptr + at, mask=there) + tl.load(bias_ptr + at % channels, mask=there)
    tl.store(x_ptr + at, tl.where(x < 0.0, 0.0, x), mask=there)


@triton.jit
def pool_kernel(
    x_ptr,
    bias_ptr,
    out_ptr,
    spots,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    RELU: tl.constexpr,
    FLAT: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Max pooling of maps that have the channels innermost, or of the ReLU of them and their bias."""
    out_height: tl.constexpr = (HEIGHT - SIZE) // STRIDE + 1
    out_width: tl.constexpr = (WIDTH - SIZE) // STRIDE + 1
    places: tl.constexpr = out_height * out_width
    spot = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    channel = tl.arange(0, BLOCK)
    sample, place = spot // places, spot % places
    corner = (sample * HEIGHT + place // out_width * STRIDE) * WIDTH + place % out_width * STRIDE
    mask = (spot < spots)[:, None] & (channel < CHANNELS)[None, :]
    top = tl.full([BLOCK_P, BLOCK], float("-inf"), tl.float32)
    for tap in tl.static_range(SIZE * SIZE):
        offsets = (corner + tap // SIZE * WIDTH + tap % SIZE)[:, None] * CHANNELS + channel[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        top = tl.maximum(top, x, propagate_nan=tl.PropagateNan.ALL)
    if RELU:
        top += tl.load(bias_ptr + channel, mask=channel < CHANNELS, other=0.0)[None, :]
        top = tl.where(top < 0.0, 0.0, top)
    if FLAT:
        offsets = (sample * (CHANNELS * places) + place)[:, None] + channel[None, :] * places
    else:
        offsets = spot[:, None] * CHANNELS + channel[None, :]
    tl.store(out_ptr + offsets, top, mask=mask)


def split_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Split a matrix into two fp16 parts a row, side by side; also return the rows' unscaling and the padded depth."""
    k = x.shape[-1]
    rows = x.numel() // k
    padded = triton.cdiv(k, DEPTH) * DEPTH
    block = triton.next_power_of_2(padded)
    height = max(1, 4096 // block)
    parts = torch.empty((rows, 2 * padded), device=x.device, dtype=torch.float16)
    unscale = torch.empty(rows, device=x.device, dtype=torch.float32)
    split_rows_kernel[(triton.cdiv(rows, height),)](
        x,
        parts,
        unscale,
        rows,
        k,
        PADDED=padded,
        ROWS=height,
        BLOCK=block,
        num_warps=16 if block > 8192 else 8,
    )
    return parts, unscale, padded


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


def convolve(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """The convolution of maps (sample, row, column, channel), without its bias."""
    weight = conv.weight.contiguous(memory_format=torch.channels_last)
    y = F.conv2d(x.permute(0, 3, 1, 2), weight, None, conv.stride, conv.padding)
    return y.permute(0, 2, 3, 1).contiguous()


def bias_relu_(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """Bias and ReLU in place."""
    bias_relu_kernel[(triton.cdiv(x.numel(), TILE["relu"]["BLOCK"]),)](
        x, conv.bias, x.numel(), x.shape[-1], **TILE["relu"]
    )
    return x


def pool(
    x: torch.Tensor, layer: nn.MaxPool2d, conv: nn.Conv2d | None = None, flat: bool = False
) -> torch.Tensor:
    """Max pooling of maps (sample, row, column, channel), with the bias of a convolution and ReLU where one is given;
    flat lays a sample out as (channel, row, column)."""
    batch, height, width, channels = x.shape
    out_height, out_width = ((side - layer.kernel_size) // layer.stride + 1 for side in (height, width))
    out = torch.empty((batch, out_height, out_width, channels), device=x.device, dtype=x.dtype)
    spots = batch * out_height * out_width
    pool_kernel[(triton.cdiv(spots, TILE["pool"]["BLOCK_P"]),)](
        x,
        x if conv is None else conv.bias,
        out,
        spots,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        SIZE=layer.kernel_size,
        STRIDE=layer.stride,
        RELU=conv is not None,
        FLAT=flat,
        BLOCK=triton.next_power_of_2(channels),
        **TILE["pool"],
    )
    return out.view(batch, -1) if flat else out


def linear(x: torch.Tensor, layer: nn.Linear, relu: bool) -> torch.Tensor:
    """x W^T + b, with ReLU if asked for."""
    n, k = layer.weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, TILE["linear"]["BLOCK_M"]) * triton.cdiv(n, TILE["linear"]["BLOCK_N"]),)
    a_parts, a_unscale, padded = split_rows(x)
    w_parts, w_unscale, _ = split_rows(layer.weight)
    linear_kernel[grid](
        a_parts,
        w_parts,
        a_unscale,
        w_unscale,
        layer.bias,
        out,
        m,
        n,
        PADDED=padded,
        RELU=relu,
        **TILE["linear"],
    )
    return out


class ModelNew(nn.Module):
    """The AlexNet classifier in a single tower, without local response normalisation."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, kernel_size=11, stride=4, padding=2)
        self.relu1 = nn.ReLU(inplace=True)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.conv2 = nn.Conv2d(96, 256, kernel_size=5, padding=2)
        self.relu2 = nn.ReLU(inplace=True)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.conv3 = nn.Conv2d(256, 384, kernel_size=3, padding=1)
        self.relu3 = nn.ReLU(inplace=True)
        self.conv4 = nn.Conv2d(384, 384, kernel_size=3, padding=1)
        self.relu4 = nn.ReLU(inplace=True)
        self.conv5 = nn.Conv2d(384, 256, kernel_size=3, padding=1)
        self.relu5 = nn.ReLU(inplace=True)
        self.maxpool3 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.fc1 = nn.Linear(256 * 6 * 6, 4096)
        self.relu6 = nn.ReLU(inplace=True)
        self.dropout1 = nn.Dropout(p=0.0)
        self.fc2 = nn.Linear(4096, 4096)
        self.relu7 = nn.ReLU(inplace=True)
        self.dropout2 = nn.Dropout(p=0.0)
        self.fc3 = nn.Linear(4096, num_classes)

    def forward(self, x):
        x = pool(first(x.contiguous(), self.conv1, TILE["first"]), self.maxpool1)
        x = pool(convolve(x, self.conv2), self.maxpool2, self.conv2)
        x = bias_relu_(convolve(x, self.conv3), self.conv3)
        x = bias_relu_(convolve(x, self.conv4), self.conv4)
        x = pool(convolve(x, self.conv5), self.maxpool3, self.conv5, flat=True)
        x = linear(x, self.fc1, True)
        x = linear(x, self.fc2, True)
        return linear(x, self.fc3, False)
