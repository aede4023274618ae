"""Convolution, average pooling, sigmoid, sum over each sample, as one small convolution of the input.

Convolution and average pooling are one convolution with a larger kernel, whose stride is the pooling's: an exact
identity. It is a product on the tensor cores in TF32, as PyTorch convolves, that reads the input as it lies, and sums
the sigmoids of a block before anything is written; a small kernel joins the blocks.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 128, "BLOCK_O": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    KERNEL: tl.constexpr,
    WINDOW: tl.constexpr,
    SPANS: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The larger kernel's weights as [step, output, tap], with zeros behind the last output and tap."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size: tl.constexpr = KERNEL + WINDOW - 1
    o_size: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O * BLOCK_O
    steps: tl.constexpr = (IN * size * WINDOW + BLOCK_K - 1) // BLOCK_K
    step = index // (BLOCK_K * o_size)
    o = index // BLOCK_K % o_size
    span = tl.minimum(step // steps, SPANS - 1)
    k = (step - span * steps) * BLOCK_K + index % BLOCK_K
    wide = tl.where(span < SPANS - 1, WINDOW, REST)
    line, column = k // wide, span * WINDOW + k % wide
    row, c = line // IN, line % IN
    there = (index < total) & (row < size) & (column < size) & (o < OUT)
    x = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(KERNEL):
        for j in tl.static_range(KERNEL):
            reaches = (row >= i) & (row < i + WINDOW) & (column >= j) & (column < j + WINDOW)
            source = ((o * IN + c) * KERNEL + i) * KERNEL + j
            x += tl.load(weight_ptr + source, mask=there & reaches, other=0.0)
    tl.store(packed_ptr + index, nearest_tf32(x * (1.0 / (WINDOW * WINDOW)), ROUND), mask=index < total)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def span_product(
    acc,
    x_ptrs,
    packed_ptrs,
    k,
    stride,
    IN: tl.constexpr,
    SIZE: tl.constexpr,
    LEFT: tl.constexpr,
    WIDE: tl.constexpr,
    PLANE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ROUND: tl.constexpr,
):
    """What WIDE neighbouring columns of the taps add, in all rows and inputs."""
    for step in range((IN * SIZE * WIDE + BLOCK_K - 1) // BLOCK_K):
        line = step * (BLOCK_K // WIDE) + k // WIDE
        offsets = line % IN * PLANE + line // IN * WIDTH + k % WIDE
        if WIDE <= LEFT and IN * SIZE * WIDE % BLOCK_K == 0:
            x = tl.load(x_ptrs + offsets[None, :])
        else:
            there = (line < IN * SIZE) & (k % WIDE < LEFT)
            x = tl.load(x_ptrs + offsets[None, :], mask=there[None, :], other=0.0)
        w = tl.load(packed_ptrs + step * stride)
        acc = tl.dot(nearest_tf32(x, ROUND), w, acc, input_precision="tf32")
    return acc


@triton.jit
def conv_sum_kernel(
    x_ptr,
    packed_ptr,
    bias_ptr,
    part_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    KERNEL: tl.constexpr,
    WINDOW: tl.constexpr,
    SPANS: tl.constexpr,
    REST: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_O: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The sum of the sigmoids of BLOCK windows; the taps in spans of WINDOW columns, so that reads are aligned."""
    size: tl.constexpr = KERNEL + WINDOW - 1
    across: tl.constexpr = (WIDTH - KERNEL + 1) // WINDOW
    n: tl.constexpr = (HEIGHT - KERNEL + 1) // WINDOW * across
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    steps: tl.constexpr = (IN * size * WINDOW + BLOCK_K - 1) // BLOCK_K
    o_size: tl.constexpr = (OUT + BLOCK_O - 1) // BLOCK_O * BLOCK_O
    image = (tl.program_id(0) // blocks).to(tl.int64)
    m = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    o = tl.program_id(1) * BLOCK_O + tl.arange(0, BLOCK_O)
    at = tl.minimum(m, n - 1)
    x_ptr += image * (IN * HEIGHT * WIDTH)
    x_offsets = (at // across * WIDTH + at % across) * WINDOW
    k = tl.arange(0, BLOCK_K)
    packed_ptrs = packed_ptr + o[None, :] * BLOCK_K + k[:, None]
    acc = tl.zeros([BLOCK, BLOCK_O], tl.float32)
    x_ptrs = x_ptr + x_offsets[:, None]
    for span in tl.static_range(SPANS):
        acc = span_product(
            acc,
            x_ptrs + span * WINDOW,
            packed_ptrs + span * steps * (o_size * BLOCK_K),
            k,
            o_size * BLOCK_K,
            IN=IN,
            SIZE=size,
            LEFT=size - span * WINDOW,
            WIDE=WINDOW if span < SPANS - 1 else REST,
            PLANE=HEIGHT * WIDTH,
            WIDTH=WIDTH,
            BLOCK_K=BLOCK_K,
            ROUND=ROUND,
        )
    y = sigmoid(acc + tl.load(bias_ptr + o, mask=o < OUT, other=0.0)[None, :])
    there = (m < n)[:, None] & (o < OUT)[None, :]
    total = tl.sum(tl.sum(tl.where(there, y, 0.0), axis=1), axis=0)
    tl.store(part_ptr + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), total)


@triton.jit
def join_kernel(part_ptr, out_ptr, blocks, BLOCK: tl.constexpr):
    """The blocks of an image together."""
    b = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, blocks, BLOCK):
        there = start + b < blocks
        total += tl.load(part_ptr + tl.program_id(0) * blocks + start + b, mask=there, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, axis=0))


class ModelNew(nn.Module):
    """Convolution, average pooling, sigmoid, sum per sample."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool_kernel_size: int):
        super().__init__()
        if pool_kernel_size & (pool_kernel_size - 1):
            raise ValueError("this kernel is written for pooling windows of a power of two")
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.avg_pool = nn.AvgPool2d(pool_kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile, window = self.conv, dict(TILE), self.avg_pool.kernel_size
        batch, inputs, height, width = x.shape
        outputs, kernel = conv.out_channels, conv.kernel_size[0]
        size = kernel + window - 1
        spans = triton.cdiv(size, window)
        rest = triton.next_power_of_2(size - (spans - 1) * window)
        block_k = tile["BLOCK_K"]
        tile["BLOCK_O"] = min(tile["BLOCK_O"], max(16, triton.next_power_of_2(outputs)))
        across = triton.cdiv(outputs, tile["BLOCK_O"])
        steps = (spans - 1) * triton.cdiv(inputs * size * window, block_k)
        steps += triton.cdiv(inputs * size * rest, block_k)
        packed = torch.empty(steps * across * tile["BLOCK_O"] * block_k, device=x.device, dtype=torch.float32)
        shape = {
            "IN": inputs,
            "OUT": outputs,
            "KERNEL": kernel,
            "WINDOW": window,
            "SPANS": spans,
            "REST": rest,
            "ROUND": x.is_cuda,
        }
        pack_kernel[(triton.cdiv(packed.numel(), 256),)](
            conv.weight.contiguous(),
            packed,
            packed.numel(),
            BLOCK_O=tile["BLOCK_O"],
            BLOCK_K=block_k,
            BLOCK=256,
            num_warps=4,
            **shape,
        )
        n = (height - kernel + 1) // window * ((width - kernel + 1) // window)
        blocks = triton.cdiv(n, tile["BLOCK"])
        parts = torch.empty(batch * blocks * across, device=x.device, dtype=torch.float32)
        total = torch.empty(batch, device=x.device, dtype=x.dtype)
        conv_sum_kernel[(batch * blocks, across)](
            x, packed, conv.bias, parts, HEIGHT=height, WIDTH=width, **shape, **tile
        )
        join_kernel[(batch,)](parts, total, blocks * across, BLOCK=256, num_warps=4)
        return total
