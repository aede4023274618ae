"""Index of the maximum over a middle dimension, in one read of aligned rows.

A row of 4095 values of two bytes begins at 16 bytes in one row of eight only. Eight such rows are one long row that
always does. A program walks down a block of columns of the long rows, with loads of 16 bytes and ROWS of them in
flight, and keeps a value and its row for each column: one comparison and two choices a value. A second, small kernel
joins the eight parts; ties go to the lower index, as in PyTorch. NaN counts as the maximum. The value becomes NaN
where there is one, and only for such columns does the second kernel read the rows again, for the first NaN.

Inputs, weights and outputs are bf16; it compares in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"ROWS": 8, "BLOCK": 1024, "SPLITS": 1, "POLICY": "", "num_warps": 4}


@triton.jit
def argmax_kernel(
    x_ptr,
    best_ptr,
    place_ptr,
    rows,
    chunks,
    share,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLITS: tl.constexpr,
    CHUNK: tl.constexpr,
    EVEN: tl.constexpr,
    POLICY: tl.constexpr,
):
    """The maximum of a share of the rows, which are `chunks` times CHUNK values long, and its first row.

    A NaN makes the value NaN, and the row that of no use.
    """
    width = chunks * CHUNK
    wide = tl.cast(width, tl.int64)
    batch = (tl.program_id(1) // SPLITS).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.program_id(1) % SPLITS * share
    end = tl.minimum(begin + share, rows)
    x_ptr += batch * rows * width + begin * wide
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.zeros([BLOCK], tl.int32) + begin
    for start in range(begin, end, ROWS):
        tile = ()
        for row in tl.static_range(ROWS):
            at = x_ptr + row * wide + column
            if EVEN:
                tile += (tl.load(at, mask=column < width, eviction_policy=POLICY),)
            else:
                mask = (start + row < end) & (column < width)
                tile += (tl.load(at, mask=mask, other=float("-inf"), eviction_policy=POLICY),)
        for row in tl.static_range(ROWS):
            x = tile[row].to(tl.float32)
            place = tl.where(x > best, start + row, place)
            best = tl.maximum(best, x, propagate_nan=tl.PropagateNan.ALL)
        x_ptr += ROWS * wide
    offset = tl.program_id(1).to(tl.int64) * width
    tl.store(best_ptr + offset + column, best, mask=column < width)
    tl.store(place_ptr + offset + column, place, mask=column < width)


@triton.jit
def join_kernel(
    x_ptr, best_ptr, place_ptr, y_ptr, parts, columns, rows, TOGETHER: tl.constexpr, BLOCK: tl.constexpr
):
    """The index in the best of the parts; of the first NaN where there is one."""
    batch = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    index = tl.zeros([BLOCK], tl.int32) + rows
    for part in range(parts):
        offset = (batch * parts + part) * columns
        value = tl.load(best_ptr + offset + column, mask=mask, other=0.0).to(tl.float32)
        place = tl.load(place_ptr + offset + column, mask=mask, other=0) * TOGETHER + part % TOGETHER
        index = tl.where((value > best) | ((value == best) & (place < index)), place, index)
        best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    bad = (best != best) & mask
    if tl.max(bad.to(tl.int32), axis=0) > 0:
        for step in range(rows):
            row = rows - 1 - step
            x = tl.load(x_ptr + (batch * rows + row) * columns + column, mask=bad, other=0.0).to(tl.float32)
            index = tl.where(x != x, row, index)
    tl.store(y_ptr + batch * columns + column, index.to(tl.int64), mask=mask)


class ModelNew(nn.Module):
    """Index of the maximum over one dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 3 or self.dim not in (1, -2):
            raise ValueError("this kernel is written for the middle one of three dimensions")
        x = x.contiguous()
        batch, rows, columns = x.shape
        together = next((n for n in (1, 2, 4, 8) if n * columns % 8 == 0 and rows % n == 0), 1)
        chunk = 8 if together * columns % 8 == 0 else 1
        long, width = rows // together, together * columns
        share = triton.cdiv(long, min(TILE["SPLITS"], long))
        splits = triton.cdiv(long, share)
        if batch * splits >= 2**16:
            raise ValueError("this kernel is written for fewer than 2^16 parts")
        best = torch.empty((batch, splits * together, columns), device=x.device, dtype=x.dtype)
        place = torch.empty(best.shape, device=x.device, dtype=torch.int32)
        y = torch.empty((batch, columns), device=x.device, dtype=torch.int64)
        argmax_kernel[(triton.cdiv(width, TILE["BLOCK"]), batch * splits)](
            x,
            best,
            place,
            long,
            width // chunk,
            share,
            ROWS=TILE["ROWS"],
            BLOCK=TILE["BLOCK"],
            SPLITS=splits,
            CHUNK=chunk,
            EVEN=long % share == 0 and share % TILE["ROWS"] == 0,
            POLICY=TILE["POLICY"],
            num_warps=TILE["num_warps"],
        )
        join_kernel[(triton.cdiv(columns, 512), batch)](
            x, best, place, y, splits * together, columns, rows, TOGETHER=together, BLOCK=512, num_warps=4
        )
        return y
