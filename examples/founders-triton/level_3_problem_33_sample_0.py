"""One step of a vanilla recurrent network: two linear layers with tanh between them, a kernel each.

The weights are most of what is read. Each is read as it is, and split into two fp16 parts in registers, each row scaled
by a power of two; three fp16 products on the tensor cores then keep the accuracy of fp32. The input and the hidden
state are split beforehand, side by side in one buffer, so they need no concatenation; tanh bounds the new hidden state,
so the first layer writes it split already. Tensor cores cut off what they add to a sum, so long sums are cut into
shorter ones, which fp32 adds: one for each block in registers, or one for each chunk through memory.
"""

import torch
import triton
import triton.language as tl
from torch import nn

BATCH = 256
DEPTH = 64
TILE = {
    "first": {"BLOCK_N": 128, "BLOCK_M": 256, "BLOCK_K": 32, "CHUNK": 2048, "num_warps": 8, "num_stages": 4},
    "second": {"BLOCK_N": 64, "BLOCK_M": 128, "BLOCK_K": 32, "CHUNK": 0, "num_warps": 4, "num_stages": 4},
}


@triton.jit
def power(exponent):
    """Two to the power of a biased exponent."""
    return (exponent << 23).to(tl.float32, bitcast=True)


@triton.jit
def biased_exponent(top):
    """The biased exponent of a power of two that brings numbers of at most this size into the range of fp16."""
    return tl.minimum(268 - (top.to(tl.int32, bitcast=True) >> 23), 253)


@triton.jit
def tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x))


@triton.jit
def combined(x_ptr, hidden_ptr, row, column, INPUT: tl.constexpr, HIDDEN: tl.constexpr):
    """Numbers of a row of the input with the hidden state beside it."""
    first = column < INPUT
    x = tl.load(x_ptr + row * INPUT + column, mask=first, other=0.0)
    inside = (column >= INPUT) & (column < INPUT + HIDDEN)
    hidden = tl.load(hidden_ptr + row * HIDDEN + column - INPUT, mask=inside, other=0.0)
    return tl.where(first, x, hidden)


@triton.jit
def split_kernel(
    x_ptr,
    hidden_ptr,
    parts_ptr,
    unscale_ptr,
    INPUT: tl.constexpr,
    HIDDEN: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    top = tl.zeros([BLOCK], tl.float32)
    for start in range(0, PADDED, BLOCK):
        top = tl.maximum(top, tl.abs(combined(x_ptr, hidden_ptr, row, start + columns, INPUT, HIDDEN)))
    scale = biased_exponent(tl.max(top, axis=0))
    tl.store(unscale_ptr + row, power(254 - scale))
    for start in range(0, PADDED, BLOCK):
        column = start + columns
        x = combined(x_ptr, hidden_ptr, row, column, INPUT, HIDDEN) * power(scale)
        high = x.to(tl.float16)
        low = (x - high.to(tl.float32)).to(tl.float16)
        parts = parts_ptr + row * (2 * PADDED) + column
        tl.store(parts, high, mask=column < PADDED)
        tl.store(parts + PADDED, low, mask=column < PADDED)


@triton.jit
def products(w, scale, a_ptrs, PADDED: tl.constexpr, y):
    """The three products of the parts of a scaled block of the weight and of the input, small terms first."""
    w *= power(scale)[:, None]
    w_high = w.to(tl.float16)
    w_low = (w - w_high.to(tl.float32)).to(tl.float16)
    a_high = tl.trans(tl.load(a_ptrs))
    a_low = tl.trans(tl.load(a_ptrs + PADDED))
    y = tl.dot(w_low, a_high, y)
    y = tl.dot(w_high, a_low, y)
    return tl.dot(w_high, a_high, y)


@triton.jit
def finish(
    y,
    rows,
    columns,
    unscale_ptr,
    bias_ptr,
    out_ptr,
    out_parts_ptr,
    M,
    N,
    OUT_PADDED: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Store a block of a layer's result, (column, row) here; after the first layer tanh of it, and its parts."""
    offsets = rows[None, :] * N + columns[:, None]
    inside = (rows < M)[None, :] & (columns < N)[:, None]
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[:, None]
    if FIRST:
        y = tanh(y * tl.load(unscale_ptr + rows % M)[None, :] + bias)
        tl.store(out_ptr + offsets, y, mask=inside)
        y *= 16384.0
        high = y.to(tl.float16)
        low = (y - high.to(tl.float32)).to(tl.float16)
        parts = out_parts_ptr + rows[None, :] * (2 * OUT_PADDED) + columns[:, None]
        tl.store(parts, high, mask=inside)
        tl.store(parts + OUT_PADDED, low, mask=inside)
    else:
        tl.store(out_ptr + offsets, y * (1.0 / 16384.0) + bias, mask=inside)


@triton.jit
def linear_kernel(
    parts_ptr,
    unscale_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    out_parts_ptr,
    sums_ptr,
    M,
    N,
    K: tl.constexpr,
    PADDED: tl.constexpr,
    OUT_PADDED: tl.constexpr,
    FIRST: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CHUNK: tl.constexpr,
):
    tiles_m = tl.cdiv(M, BLOCK_M)
    columns = tl.program_id(0) // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, BLOCK_K)
    if WHOLE:
        w_ptrs = w_ptr + columns.to(tl.int64)[:, None] * K + depth[None, :]
        a_ptrs = parts_ptr + rows[:, None] * (2 * PADDED) + depth[None, :]
    else:
        w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
        a_ptrs = parts_ptr + (rows % M)[:, None] * (2 * PADDED) + depth[None, :]
    if CHUNK == 0:
        y = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for start in range(0, K, BLOCK_K):
            if K % BLOCK_K:
                w = tl.load(w_ptrs + start, mask=depth[None, :] < K - start, other=0.0)
            else:
                w = tl.load(w_ptrs + start)
            scale = biased_exponent(tl.max(tl.abs(w), axis=1))
            part = products(w, scale, a_ptrs + start, PADDED, tl.zeros([BLOCK_N, BLOCK_M], tl.float32))
            y += part * power(254 - scale)[:, None]
        finish(y, rows, columns, unscale_ptr, bias_ptr, out_ptr, out_parts_ptr, M, N, OUT_PADDED, FIRST)
    else:
        # Sums need no masks here, and their addresses differ by constants: the loop leaves no registers for more.
        within = tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + tl.arange(0, BLOCK_M)[None, :]
        sums_ptr += tl.program_id(0).to(tl.int64) * (BLOCK_N * BLOCK_M)
        for chunk in range(0, K, CHUNK):
            part = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
            scale = tl.full([BLOCK_N], 253, tl.int32)
            for start in range(chunk, min(chunk + CHUNK, K), BLOCK_K):
                if K % BLOCK_K:
                    w = tl.load(w_ptrs + start, mask=depth[None, :] < K - start, other=0.0)
                else:
                    w = tl.load(w_ptrs + start)
                # A larger number than any before it takes the row's sum along to its scale.
                before = scale
                scale = tl.minimum(before, biased_exponent(tl.max(tl.abs(w), axis=1)))
                part *= power(tl.maximum(127 + scale - before, 0))[:, None]
                part = products(w, scale, a_ptrs + start, PADDED, part)
            part *= power(254 - scale)[:, None]
            if chunk > 0:
                part += tl.load(sums_ptr + within)
            tl.store(sums_ptr + within, part)
            tl.debug_barrier()
        for start in range(0, BLOCK_M, 32):
            few = start + tl.arange(0, 32)
            y = tl.load(sums_ptr + tl.arange(0, BLOCK_N)[:, None] * BLOCK_M + few[None, :])
            few += tl.program_id(0) % tiles_m * BLOCK_M
            finish(y, few, columns, unscale_ptr, bias_ptr, out_ptr, out_parts_ptr, M, N, OUT_PADDED, FIRST)


def padded_to(size: int) -> int:
    return triton.cdiv(size, DEPTH) * DEPTH


def split(x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of both, side by side, in two fp16 parts, and what takes their scales back."""
    batch, width = x.shape
    padded = padded_to(width + hidden.shape[1])
    parts = torch.empty((batch, 2 * padded), device=x.device, dtype=torch.float16)
    unscale = torch.empty(batch, device=x.device, dtype=torch.float32)
    split_kernel[(batch,)](
        x,
        hidden,
        parts,
        unscale,
        INPUT=width,
        HIDDEN=hidden.shape[1],
        PADDED=padded,
        BLOCK=4096,
        num_warps=8,
    )
    return parts, unscale


def linear(
    parts: torch.Tensor, unscale: torch.Tensor | None, layer: nn.Linear
) -> tuple[torch.Tensor, torch.Tensor]:
    """A linear layer of numbers in two parts. With scales of their own to take back, tanh follows, and the result also
    comes in two parts, as the numbers of the layer after it."""
    n, k = layer.weight.shape
    batch, out_padded = parts.shape[0], padded_to(n)
    out = torch.empty((batch, n), device=parts.device, dtype=torch.float32)
    out_parts = parts
    if unscale is not None:
        make = torch.empty if out_padded == n else torch.zeros
        out_parts = make((batch, 2 * out_padded), device=parts.device, dtype=torch.float16)
    if max(parts.numel(), batch * 2 * out_padded) >= 2**31:
        raise ValueError("this kernel is written for activations of less than 2^31 numbers")
    tile = TILE["second" if unscale is None else "first"]
    grid = (triton.cdiv(n, tile["BLOCK_N"]) * triton.cdiv(batch, tile["BLOCK_M"]),)
    numbers = grid[0] * tile["BLOCK_N"] * tile["BLOCK_M"] if tile["CHUNK"] else 1
    sums = torch.empty(numbers, device=parts.device, dtype=torch.float32)
    linear_kernel[grid](
        parts,
        parts if unscale is None else unscale,
        layer.weight,
        layer.bias,
        out,
        out_parts,
        sums,
        batch,
        n,
        K=k,
        PADDED=parts.shape[1] // 2,
        OUT_PADDED=out_padded,
        FIRST=unscale is not None,
        WHOLE=n % tile["BLOCK_N"] == 0 and batch % tile["BLOCK_M"] == 0,
        **tile,
    )
    return out, out_parts


class ModelNew(nn.Module):
    """A recurrent cell that keeps its hidden state between calls."""

    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.output_size = output_size
        self.hidden = torch.randn((BATCH, hidden_size))
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.tanh = nn.Tanh()

    def forward(self, x, initial_hidden=None):
        hidden = self.hidden if initial_hidden is None else initial_hidden.expand_as(self.hidden)
        hidden = hidden.to(x.device, torch.float32).contiguous()
        self.hidden, parts = linear(*split(x.contiguous(), hidden), self.i2h)
        return linear(parts, None, self.h2o)[0]
