"""AlexNet with maps that have the channels innermost, as tensor cores want them.

Bias and ReLU happen on the accumulators; pooling is one pass. The depth of the first convolution runs along the taps
of a row, padded to a window of fixed width, so that loads are contiguous although the stride is four. Eager PyTorch
passes over every map for its bias and its ReLU, and brings maps to another layout for the convolutions.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "first": {"BLOCK_P": 128, "BLOCK_K": 32, "WINDOW": 16, "num_warps": 4, "num_stages": 4},
    "second": {"BLOCK_P": 128, "BLOCK_N": 256, "BLOCK_K": 32, "num_warps": 8, "num_stages": 4},
    "third": {"BLOCK_P": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3},
    "fifth": {"BLOCK_P": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    "pool": {"BLOCK_P": 8, "num_warps": 4},
    "linear": {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 4},
}


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    DEPTH: tl.constexpr,
    KERNEL: tl.constexpr,
    WINDOW: tl.constexpr,
    OFFSET: tl.constexpr,
    OUT: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [block of the depth, output, depth within the block]; depth is (channel, tap row, window)."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o = index // BLOCK_K % OUT
    k = index // (BLOCK_K * OUT) * BLOCK_K + index % BLOCK_K
    tap = k % WINDOW - OFFSET
    there = (index < total) & (k < DEPTH * WINDOW) & (tap >= 0) & (tap < KERNEL)
    x = tl.load(weight_ptr + (o * DEPTH + k // WINDOW) * KERNEL + tap, mask=there, other=0.0)
    tl.store(packed_ptr + index, x, mask=index < total)


@triton.jit
def rounded(x):
    """PyTorch rounds a convolution before it adds the bias."""
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def first_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    y_ptr,
    places,
    IN: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    OH: tl.constexpr,
    OW: tl.constexpr,
    KERNEL: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    OFFSET: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """96 outputs at some places with bias and ReLU: 64 and 32 share what is read; the channels become innermost."""
    p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample = p // (OH * OW)
    place = (p % (OH * OW)).to(tl.int32)
    top = place // OW * STRIDE - PADDING
    left = place % OW * STRIDE - (PADDING + OFFSET)
    x_rows = x_ptr + sample * (IN * H * W)
    inside = p < places
    depth = tl.arange(0, BLOCK_K)
    first = tl.zeros([BLOCK_P, 64], tl.float32)
    second = tl.zeros([BLOCK_P, 32], tl.float32)
    low = packed_ptr + tl.arange(0, 64)[:, None] * BLOCK_K + depth[None, :]
    high = packed_ptr + 64 * BLOCK_K + tl.arange(0, 32)[:, None] * BLOCK_K + depth[None, :]
    for t in range((IN * KERNEL * WINDOW + BLOCK_K - 1) // BLOCK_K):
        k = t * BLOCK_K + depth
        line = k // WINDOW
        row = top[:, None] + (line % KERNEL)[None, :]
        column = left[:, None] + (k % WINDOW)[None, :]
        mask = (
            (row >= 0)
            & (row < H)
            & (column >= 0)
            & (column < W)
            & (line < IN * KERNEL)[None, :]
            & inside[:, None]
        )
        x = tl.load(
            x_rows[:, None] + ((line // KERNEL * (H * W))[None, :] + row * W + column), mask=mask, other=0.0
        )
        a = tl.load(low + t * (96 * BLOCK_K))
        b = tl.load(high + t * (96 * BLOCK_K))
        # What lies in the window beside the kernel meets a weight of zero.
        first = tl.dot(x, tl.trans(a), first)
        second = tl.dot(x, tl.trans(b), second)
    o = tl.arange(0, 64)
    y_rows = y_ptr + p[:, None] * 96
    first = rounded(first) + tl.load(bias_ptr + o).to(tl.float32)[None, :]
    first = tl.where(first < 0.0, 0.0, first)
    tl.store(y_rows + o[None, :], first, mask=inside[:, None])
    o = 64 + tl.arange(0, 32)
    second = rounded(second) + tl.load(bias_ptr + o).to(tl.float32)[None, :]
    second = tl.where(second < 0.0, 0.0, second)
    tl.store(y_rows + o[None, :], second, mask=inside[:, None])


@triton.jit
def linear_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K: tl.constexpr,
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
    x_ptrs = x_ptr + (rows % M).to(tl.int64)[:, None] * K + depth[None, :]
    w_ptrs = weight_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
    y = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        if K % BLOCK_K == 0:
            x = tl.load(x_ptrs)
            w = tl.load(w_ptrs)
        else:
            x = tl.load(x_ptrs, mask=(depth < K - start)[None, :], other=0.0)
            w = tl.load(w_ptrs, mask=(depth < K - start)[None, :], other=0.0)
        y = tl.dot(x, tl.trans(w), y)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    y += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    if RELU:
        y = tl.where(y < 0.0, 0.0, y)
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(out_ptr + offsets, y, mask=(rows[:, None] < M) & (columns[None, :] < N))


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
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """A convolution that keeps the size of its maps, which have the channels innermost, with bias and ReLU; weights are
    (tap, output, input)."""
    chunks: tl.constexpr = (CHANNELS + BLOCK_K - 1) // BLOCK_K
    tiles: tl.constexpr = (OUTS + BLOCK_N - 1) // BLOCK_N
    out = tl.program_id(0) % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    pixel = tl.program_id(0) // tiles * BLOCK_P + tl.arange(0, BLOCK_P)
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
    tl.store(
        out_ptr + pixel[:, None] * OUTS + out[None, :],
        y,
        mask=(pixel < pixels)[:, None] & (out < OUTS)[None, :],
    )


@triton.jit
def pool_kernel(
    x_ptr,
    out_ptr,
    spots,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    FLAT: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Max pooling of maps that have the channels innermost."""
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
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        top = tl.maximum(top, x, propagate_nan=tl.PropagateNan.ALL)
    if FLAT:
        offsets = (sample * (CHANNELS * places) + place)[:, None] + channel[None, :] * places
    else:
        offsets = spot[:, None] * CHANNELS + channel[None, :]
    tl.store(out_ptr + offsets, top, mask=mask)


def first(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """ReLU of the first convolution of maps (sample, channel, row, column) as (sample, row, column, channel)."""
    kernel, stride, padding = 11, 4, 2
    tile = TILE["first"]
    batch, channels, height, width = x.shape
    if channels != 3:
        raise ValueError("this kernel is written for three channels")
    out_height, out_width = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
    window, block = tile["WINDOW"], tile["BLOCK_K"]
    offset = 2 if window == 16 else 0  # so that windows of sixteen begin at multiples of four
    total = triton.cdiv(channels * kernel * window, block) * 96 * block
    packed = torch.empty(total, device=x.device, dtype=x.dtype)
    pack_kernel[(triton.cdiv(total, 512),)](
        conv.weight.contiguous(),
        packed,
        total,
        DEPTH=channels * kernel,
        KERNEL=kernel,
        WINDOW=window,
        OFFSET=offset,
        OUT=96,
        BLOCK_K=block,
        BLOCK=512,
        num_warps=4,
    )
    y = torch.empty((batch, out_height, out_width, 96), device=x.device, dtype=x.dtype)
    places = batch * out_height * out_width
    first_kernel[(triton.cdiv(places, tile["BLOCK_P"]),)](
        x,
        packed,
        conv.bias,
        y,
        places,
        IN=channels,
        H=height,
        W=width,
        OH=out_height,
        OW=out_width,
        KERNEL=kernel,
        STRIDE=stride,
        PADDING=padding,
        OFFSET=offset,
        **tile,
    )
    return y


def spatial(x: torch.Tensor, conv: nn.Conv2d, tile: dict) -> torch.Tensor:
    """ReLU of the convolution of maps (sample, row, column, channel)."""
    batch, height, width, channels = x.shape
    outs, size = conv.out_channels, conv.kernel_size[0]
    out = torch.empty((batch, height, width, outs), device=x.device, dtype=x.dtype)
    if max(x.numel(), out.numel()) >= 2**31:
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
        **tile,
    )
    return out


def pool(x: torch.Tensor, layer: nn.MaxPool2d, flat: bool = False) -> torch.Tensor:
    """Max pooling of maps (sample, row, column, channel); flat lays a sample out as (channel, row, column)."""
    batch, height, width, channels = x.shape
    out_height, out_width = ((side - layer.kernel_size) // layer.stride + 1 for side in (height, width))
    out = torch.empty((batch, out_height, out_width, channels), device=x.device, dtype=x.dtype)
    spots = batch * out_height * out_width
    pool_kernel[(triton.cdiv(spots, TILE["pool"]["BLOCK_P"]),)](
        x,
        out,
        spots,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        SIZE=layer.kernel_size,
        STRIDE=layer.stride,
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
    linear_kernel[grid](x, layer.weight, layer.bias, out, m, n, K=k, RELU=relu, **TILE["linear"])
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
        x = pool(first(x.contiguous(), self.conv1), self.maxpool1)
        x = pool(spatial(x, self.conv2, TILE["second"]), self.maxpool2)
        x = spatial(x, self.conv3, TILE["third"])
        x = spatial(x, self.conv4, TILE["third"])
        x = pool(spatial(x, self.conv5, TILE["fifth"]), self.maxpool3, flat=True)
        x = linear(x, self.fc1, True)
        x = linear(x, self.fc2, True)
        return linear(x, self.fc3, False)
