"""Transposed convolution, batch normalisation in training mode, minus the mean of each plane, with one write.

With stride 2 and padding 1, a position's 2 x 2 x 2 results depend on 2 x 2 x 2 inputs, so pairs of results along the
width are small products, in TF32 as PyTorch convolves. They are made twice: for the statistics, of which only a
block's mean and squared deviations are written, and for the result. What is added to a whole channel cancels.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"STATS": 128, "STATS_WARPS": 4, "BLOCK": 128, "num_warps": 4, "num_stages": 2}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def fold_kernel(
    weight_ptr,
    folded_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [2 x 2 results, 2 x 2 inputs, (pair of results, output), (input, pair of inputs)]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k, rest = index % TAPS, index // TAPS
    c, o, rest = k // 2, rest % OUTPUTS, rest // OUTPUTS
    way = rest // 8 * 2 + rest % 2
    tap = rest // 2 % 4 * 2 + k % 2
    place = tl.zeros([BLOCK], tl.int32)
    for bit in tl.static_range(3):
        odd, other = way >> (2 - bit) & 1, tap >> (2 - bit) & 1
        place = place * 3 + tl.where(odd == 0, 1, 2 - 2 * other)
    there = (o < OUT) & (c < IN) & (way < 8) & (tap & ~way == 0)
    x = tl.load(weight_ptr + (c * OUT + o) * 27 + place, mask=there, other=0.0)
    tl.store(folded_ptr + index, nearest_tf32(x, ROUND), mask=way < 8)


@triton.jit
def convolve(
    x_ptr,
    folded_ptr,
    place,
    edge,
    rows,
    IN: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
):
    """[position, (pair of results along the width, output)] for one of 2 x 2 rows of results."""
    k = tl.arange(0, TAPS)
    column = tl.arange(0, 2 * OUTPUTS)
    y = tl.zeros([place.shape[0], 2 * OUTPUTS], tl.float32)
    for i in range(tl.where(rows == 3, 4, tl.where(rows == 0, 1, 2))):
        tap = tl.where(rows == 2, 2 * i, i)
        offsets = k // 2 * PIXELS + k % 2 + (tap // 2 * HEIGHT + tap % 2) * WIDTH
        mask = (k < 2 * IN)[:, None] & ((8 + 2 * tap + k % 2)[:, None] & edge[None, :] == 0)
        x = tl.load(x_ptr + (offsets[:, None] + place[None, :]), mask=mask, other=0.0)
        w_ptrs = folded_ptr + (rows * 4 + tap) * (2 * OUTPUTS * TAPS)
        w = tl.load(w_ptrs + column[:, None] * TAPS + k[None, :])
        y = tl.dot(tl.trans(nearest_tf32(x, ROUND)), tl.trans(w), y, input_precision="tf32")
    return y


@triton.jit
def edges(place, DEPTH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """A bit for each axis along which a position is the last, and one where it is outside."""
    z, row, column = place // (HEIGHT * WIDTH), place // WIDTH % HEIGHT, place % WIDTH
    edge = tl.where(z == DEPTH - 1, 4, 0) + tl.where(row == HEIGHT - 1, 2, 0)
    return edge + tl.where(column == WIDTH - 1, 1, 0) + tl.where(z < DEPTH, 0, 8)


@triton.jit
def stats_kernel(
    x_ptr,
    folded_ptr,
    count_ptr,
    mean_ptr,
    m2_ptr,
    IN: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Count, mean and squared deviations of one of 2 x 2 rows of results at BLOCK positions of an image."""
    n: tl.constexpr = DEPTH * HEIGHT * WIDTH
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    part = tl.program_id(0)
    rows = part % 4
    place = part // 4 % blocks * BLOCK + tl.arange(0, BLOCK)
    edge = edges(place, DEPTH, HEIGHT, WIDTH)
    x_ptr += (part // (4 * blocks)).to(tl.int64) * (IN * n)
    y = convolve(x_ptr, folded_ptr, place, edge, rows, IN, OUTPUTS, n, HEIGHT, WIDTH, TAPS, ROUND)
    ways = 8 + 2 * rows + tl.arange(0, 2 * OUTPUTS) // OUTPUTS
    there = ways[None, :] & edge[:, None] == 0
    count = tl.sum(tl.sum(there.to(tl.float32), axis=1), axis=0) / OUTPUTS
    sums = tl.sum(tl.where(there, y, 0.0), axis=0)
    mean = tl.sum(tl.reshape(sums, [2, OUTPUTS]), axis=0) / tl.maximum(count, 1.0)
    both = tl.reshape(tl.broadcast_to(mean[None, :], [2, OUTPUTS]), [2 * OUTPUTS])
    y = tl.where(there, y - both[None, :], 0.0)
    o = tl.arange(0, OUTPUTS)
    tl.store(count_ptr + part, count)
    tl.store(mean_ptr + part * OUTPUTS + o, mean)
    tl.store(m2_ptr + part * OUTPUTS + o, tl.sum(tl.reshape(tl.sum(y * y, axis=0), [2, OUTPUTS]), axis=0))


@triton.jit
def plane_kernel(
    count_ptr,
    mean_ptr,
    m2_ptr,
    plane_mean_ptr,
    plane_m2_ptr,
    parts,
    pixels,
    OUTPUTS: tl.constexpr,
    PARTS: tl.constexpr,
    EACH: tl.constexpr,
):
    """The parts of EACH planes of an image together."""
    part = tl.arange(0, PARTS)[:, None]
    o = tl.program_id(1) * EACH + tl.arange(0, EACH)
    slots = tl.program_id(0) * parts + part
    counts = tl.load(count_ptr + slots, mask=part < parts, other=0.0)
    means = tl.load(mean_ptr + slots * OUTPUTS + o[None, :], mask=part < parts, other=0.0)
    m2 = tl.load(m2_ptr + slots * OUTPUTS + o[None, :], mask=part < parts, other=0.0)
    mean = tl.sum(means * (counts / pixels), axis=0)
    m2 += counts * (means - mean[None, :]) * (means - mean[None, :])
    tl.store(plane_mean_ptr + tl.program_id(0) * OUTPUTS + o, mean)
    tl.store(plane_m2_ptr + tl.program_id(0) * OUTPUTS + o, tl.sum(m2, axis=0))


@triton.jit
def channel_kernel(
    mean_ptr,
    m2_ptr,
    conv_bias_ptr,
    weight_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    scale_ptr,
    batch,
    pixels,
    eps,
    momentum,
    HAS_BIAS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BATCH: tl.constexpr,
):
    """Scale of a channel, and running statistics."""
    channel = tl.program_id(0)
    image = tl.arange(0, BATCH)
    means = tl.load(mean_ptr + image * OUTPUTS + channel, mask=image < batch, other=0.0)
    m2 = tl.load(m2_ptr + image * OUTPUTS + channel, mask=image < batch, other=0.0)
    mean = tl.sum(means, axis=0) / batch
    between = tl.where(image < batch, (means - mean) * (means - mean), 0.0)
    total = tl.sum(m2 + between * pixels, axis=0)
    n = batch * pixels
    tl.store(scale_ptr + channel, tl.load(weight_ptr + channel) / tl.sqrt(total / n + eps))
    if HAS_BIAS:
        mean += tl.load(conv_bias_ptr + channel)
    old_mean = tl.load(running_mean_ptr + channel)
    old_var = tl.load(running_var_ptr + channel)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + channel, old_var + momentum * (total / (n - 1) - old_var))
    if channel == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


@triton.jit
def result_kernel(
    x_ptr,
    folded_ptr,
    scale_ptr,
    plane_mean_ptr,
    y_ptr,
    OUT: tl.constexpr,
    IN: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One of 2 x 2 rows of results at BLOCK positions of an image, normalised."""
    n: tl.constexpr = DEPTH * HEIGHT * WIDTH
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    depth: tl.constexpr = 2 * DEPTH - 1
    height: tl.constexpr = 2 * HEIGHT - 1
    width: tl.constexpr = 2 * WIDTH - 1
    rows = tl.program_id(0) % 4
    image = (tl.program_id(0) // (4 * blocks)).to(tl.int64)
    first = tl.program_id(0) // 4 % blocks * BLOCK
    place = first + tl.arange(0, BLOCK)
    edge = edges(place, DEPTH, HEIGHT, WIDTH)
    x_ptr += image * (IN * n)
    y = convolve(x_ptr, folded_ptr, place, edge, rows, IN, OUTPUTS, n, HEIGHT, WIDTH, TAPS, ROUND)
    y = tl.permute(tl.reshape(y, [BLOCK, 2, OUTPUTS]), (2, 0, 1))
    y = tl.reshape(y, [OUTPUTS, 2 * BLOCK])
    at = 2 * first + tl.arange(0, 2 * BLOCK)
    z = at // (2 * WIDTH * HEIGHT) * 2 + rows // 2
    row = at // (2 * WIDTH) % HEIGHT * 2 + rows % 2
    column = at % (2 * WIDTH)
    o = tl.arange(0, OUTPUTS)
    scale = tl.load(scale_ptr + o, mask=o < OUT, other=0.0)
    mean = tl.load(plane_mean_ptr + image * OUTPUTS + o)
    there = (o < OUT)[:, None] & ((z < depth) & (row < height) & (column < width))[None, :]
    y_ptr += image * OUT * (depth * height * width)
    offsets = o[:, None] * (depth * height * width) + ((z * height + row) * width + column)[None, :]
    tl.store(y_ptr + offsets, (y - mean[:, None]) * scale[:, None], mask=there)


class ModelNew(nn.Module):
    """Transposed convolution, batch norm, subtraction of the spatial mean."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
    ):
        super().__init__()
        if (kernel_size, stride, padding) != (3, 2, 1):
            raise ValueError("this kernel is written for a 3 x 3 x 3 kernel, stride 2 and padding 1")
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.batch_norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, bn, tile = self.conv_transpose, self.batch_norm, dict(TILE)
        batch, inputs, *sizes = x.shape
        outputs, pixels = conv.out_channels, x[0, 0].numel()
        at_once = max(16, triton.next_power_of_2(outputs))
        taps = max(16, triton.next_power_of_2(2 * inputs))
        folded = torch.empty(32 * at_once * taps, device=x.device, dtype=torch.float32)
        fold_kernel[(triton.cdiv(folded.numel(), 256),)](
            conv.weight.contiguous(),
            folded,
            IN=inputs,
            OUT=outputs,
            OUTPUTS=at_once,
            TAPS=taps,
            ROUND=x.is_cuda,
            BLOCK=256,
            num_warps=4,
        )
        shape = {
            "IN": inputs,
            "OUTPUTS": at_once,
            "DEPTH": sizes[0],
            "HEIGHT": sizes[1],
            "WIDTH": sizes[2],
            "TAPS": taps,
            "ROUND": x.is_cuda,
        }
        stats, warps = tile.pop("STATS"), tile.pop("STATS_WARPS")
        parts = 4 * triton.cdiv(pixels, stats)
        counts = torch.empty(batch * parts, device=x.device, dtype=torch.float32)
        moments = torch.empty((2, batch * parts, at_once), device=x.device, dtype=torch.float32)
        planes = torch.empty((2, batch, at_once), device=x.device, dtype=torch.float32)
        scale = torch.empty(outputs, device=x.device, dtype=torch.float32)
        y = torch.empty((batch, outputs, *(2 * each - 1 for each in sizes)), device=x.device, dtype=x.dtype)
        stats_kernel[(batch * parts,)](
            x,
            folded,
            counts,
            *moments,
            BLOCK=stats,
            num_warps=warps,
            num_stages=tile["num_stages"],
            **shape,
        )
        plane_kernel[(batch, at_once // 8)](
            counts,
            *moments,
            *planes,
            parts,
            y[0, 0].numel(),
            OUTPUTS=at_once,
            PARTS=triton.next_power_of_2(parts),
            EACH=8,
            num_warps=8,
        )
        channel_kernel[(outputs,)](
            *planes,
            scale if conv.bias is None else conv.bias,
            bn.weight,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            scale,
            batch,
            y[0, 0].numel(),
            bn.eps,
            bn.momentum,
            HAS_BIAS=conv.bias is not None,
            OUTPUTS=at_once,
            BATCH=triton.next_power_of_2(batch),
            num_warps=1,
        )
        grid = (batch * 4 * triton.cdiv(pixels, tile["BLOCK"]),)
        result_kernel[grid](x, folded, scale, planes[0], y, OUT=outputs, **shape, **tile)
        return y
