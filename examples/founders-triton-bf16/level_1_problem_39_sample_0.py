"""Rows divided by their Euclidean norm in one pass over memory: each piece is read again from the L2 cache.

The rows have odd lengths, so that most of them begin unaligned. The pieces are therefore those of the whole memory, not
of the rows: each begins aligned, has loads and stores of 16 bytes, and may have the end of one row and the beginning
of the next. A program has two pieces. It sums up one, for each of its rows, and publishes the sums. Then it scales
another, LAG pieces back: what all pieces of its rows have published is there by then. It waits if not, and only
for programs that began before it, so that none waits for ever. The memory sees one read and one write of each
value. Programs take tickets, so that those that began first have the first pieces.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 8192, "LAG": 792, "KEEP": "evict_last", "num_warps": 8, "maxnreg": 64}


@triton.jit
def wait_for(done_ptr, row, columns, BLOCK: tl.constexpr):
    """Wait for all pieces of a row; return how many there are."""
    pieces = (row * columns + columns - 1) // BLOCK - row * columns // BLOCK + 1
    while tl.atomic_add(done_ptr + row, 0, sem="acquire") < pieces:
        pass
    return pieces


@triton.jit
def scale_of(sums_ptr, row, pieces, PADDED: tl.constexpr):
    """What to multiply a row by, from the sums of its pieces."""
    piece = tl.arange(0, PADDED)
    sums = tl.load(sums_ptr + row * PADDED + piece, mask=piece < pieces, other=0.0, cache_modifier=".cg")
    return 1.0 / tl.sqrt(tl.sum(sums, axis=0))


@triton.jit
def normalise_kernel(
    x_ptr,
    y_ptr,
    sums_ptr,
    done_ptr,
    rows,
    columns,
    size,
    pieces,
    lag,
    EVEN: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP: tl.constexpr,
):
    """The counters are those of the pieces published, one a row, and behind them that of the tickets."""
    new = tl.atomic_add(done_ptr + rows, 1, sem="relaxed")
    old = new - lag
    lanes = tl.arange(0, BLOCK)
    start = tl.minimum(new, pieces - 1) * BLOCK
    mask = lanes < tl.where(new < pieces, BLOCK if EVEN else size - start, 0)
    x = tl.load(x_ptr + start + lanes, mask=mask, other=0.0, eviction_policy=KEEP)
    old_start = tl.maximum(old, 0) * BLOCK
    old_mask = lanes < tl.where(old >= 0, BLOCK if EVEN else size - old_start, 0)
    old_x = tl.load(x_ptr + old_start + lanes, mask=old_mask, other=0.0, eviction_policy="evict_first")
    old_row = old_start // columns
    old_length = (old_row + 1) * columns - old_start
    old_next = (old_length < BLOCK) & (old_row + 1 < rows)
    scale = 0.0
    next_scale = 0.0
    if old >= 0:
        count = wait_for(done_ptr, old_row, columns, BLOCK)
        scale = scale_of(sums_ptr, old_row, count, PADDED)
        if old_next:
            count = wait_for(done_ptr, old_row + 1, columns, BLOCK)
            next_scale = scale_of(sums_ptr, old_row + 1, count, PADDED)
    if new < pieces:
        values = x.to(tl.float32)
        values = values * values
        row = start // columns
        length = (row + 1) * columns - start
        slot = sums_ptr + row * PADDED + new - row * columns // BLOCK
        if length >= BLOCK:
            tl.store(slot, tl.sum(values, axis=0))
            tl.debug_barrier()
            tl.atomic_add(done_ptr + row, 1, sem="release")
        else:
            first = tl.sum(tl.where(lanes < length, values, 0.0), axis=0)
            second = tl.sum(tl.where(lanes < length, 0.0, values), axis=0)
            more = row + 1 < rows
            tl.store(slot, first)
            tl.store(sums_ptr + (row + 1) * PADDED, second, mask=more)
            tl.debug_barrier()
            tl.atomic_add(done_ptr + row, 1, sem="release")
            tl.atomic_add(done_ptr + row + 1, 1, mask=more, sem="release")
    y = old_x.to(tl.float32) * tl.where(lanes < old_length, scale, next_scale)
    tl.store(
        y_ptr + old_start + lanes, y.to(y_ptr.dtype.element_ty), mask=old_mask, eviction_policy="evict_first"
    )


class ModelNew(nn.Module):
    """Divide each row by its Euclidean norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        rows, columns = x.shape
        size = rows * columns
        block = min(TILE["BLOCK"], triton.next_power_of_2(columns + 1) // 2)
        pieces = triton.cdiv(size, block)
        padded = max(triton.next_power_of_2(triton.cdiv(columns, block) + 1), 32)
        lag = max(TILE["LAG"], triton.cdiv(columns, block) + 2)
        if size >= 2**31 or pieces + lag >= 2**31 or rows * padded >= 2**31:
            raise ValueError("this kernel is written for fewer values")
        sums = torch.empty((rows, padded), device=x.device, dtype=torch.float32)
        done = torch.zeros(rows + 1, device=x.device, dtype=torch.int32)
        normalise_kernel[(pieces + lag,)](
            x,
            y,
            sums,
            done,
            rows,
            columns,
            size,
            pieces,
            lag,
            EVEN=size % block == 0,
            PADDED=padded,
            BLOCK=block,
            KEEP=TILE["KEEP"],
            num_warps=TILE["num_warps"],
            maxnreg=TILE["maxnreg"],
        )
        return y
