"""Batch normalisation in training mode, channel after channel, with a channel kept on the chip between its two reads.

The statistics of a channel need its planes alone: 67 MB. One program on each multiprocessor reads its share of them.
It keeps the last pieces in registers. It reads again those before them, which its L1 cache still has for the most
part, and the first ones, which are in the L2 cache. All wait for one another's moments, join them, and write. While
they wait they read the first pieces of the next channel. They are launched together, so that none waits for ever.
So most of the second read takes no memory traffic.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "PIECE": 8192,
    "ROWS": 2,
    "HOLD": 4,
    "NEAR": 3,
    "LEAD": 1,
    "KEEP": "",
    "PER": 1,
    "num_warps": 16,
    "maxnreg": 128,
}
"""Numbers of a piece; pieces of a step and those held in registers; steps left to the L1 cache, steps read ahead;
programs on a multiprocessor."""


@triton.jit
def load_piece(
    x_ptr,
    channel,
    piece,
    end,
    channels,
    pixels,
    parts,
    PIECE: tl.constexpr,
    FULL: tl.constexpr,
    CACHE: tl.constexpr,
    KEEP: tl.constexpr,
):
    start = piece % parts * PIECE
    at = x_ptr + (piece // parts * channels + channel).to(tl.int64) * pixels + start
    left = tl.where(piece < end, pixels - start, 0)
    lanes = tl.arange(0, PIECE)
    mask = None if FULL else lanes < left
    other = None if FULL else 0.0
    return tl.load(at + lanes, mask=mask, other=other, cache_modifier=CACHE, eviction_policy=KEEP)


@triton.jit
def add_moments(
    count,
    mean,
    m2,
    x,
    piece,
    end,
    pixels,
    parts,
    PIECE: tl.constexpr,
    LANES: tl.constexpr,
    FULL: tl.constexpr,
):
    """Each lane joins the moments of its numbers to those that it has (Chan's formula)."""
    runs: tl.constexpr = PIECE // (4 * LANES)
    x = tl.reshape(x, [runs, LANES, 4])
    total = tl.sum(tl.sum(x, axis=2), axis=0)
    if FULL:
        news = tl.full([LANES], runs * 4, tl.float32)
        new_mean = total * (1.0 / (runs * 4))
        rest = x - new_mean[None, :, None]
    else:
        left = tl.where(piece < end, pixels - piece % parts * PIECE, 0)
        there = tl.reshape(tl.arange(0, PIECE) < left, [runs, LANES, 4])
        news = tl.sum(tl.sum(tl.where(there, 1.0, 0.0), axis=2), axis=0)
        new_mean = total / tl.maximum(news, 1.0)
        rest = tl.where(there, x - new_mean[None, :, None], 0.0)
    new_m2 = tl.sum(tl.sum(rest * rest, axis=2), axis=0)
    both = count + news
    share = news / tl.maximum(both, 1.0)
    delta = new_mean - mean
    return both, mean + delta * share, m2 + new_m2 + delta * delta * (count * share)


@triton.jit
def read_pieces(
    x_ptr,
    count,
    mean,
    m2,
    channel,
    piece,
    end,
    channels,
    pixels,
    parts,
    PIECE: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    FULL: tl.constexpr,
    CACHE: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Some pieces, and the moments with theirs."""
    xs = ()
    for i in tl.static_range(ROWS):
        xs += (load_piece(x_ptr, channel, piece + i, end, channels, pixels, parts, PIECE, FULL, CACHE, KEEP),)
    for i in tl.static_range(ROWS):
        count, mean, m2 = add_moments(
            count, mean, m2, xs[i], piece + i, end, pixels, parts, PIECE, LANES, FULL
        )
    return count, mean, m2, xs


@triton.jit
def store_piece(
    y_ptr,
    x,
    scale,
    shift,
    channel,
    piece,
    end,
    channels,
    pixels,
    parts,
    PIECE: tl.constexpr,
    FULL: tl.constexpr,
):
    start = piece % parts * PIECE
    at = y_ptr + (piece // parts * channels + channel).to(tl.int64) * pixels + start
    lanes = tl.arange(0, PIECE)
    mask = None if FULL else lanes < tl.where(piece < end, pixels - start, 0)
    tl.store(at + lanes, x * scale + shift, mask=mask, eviction_policy="evict_first")


@triton.jit
def write_pieces(
    x_ptr,
    y_ptr,
    scale,
    shift,
    channel,
    piece,
    end,
    channels,
    pixels,
    parts,
    PIECE: tl.constexpr,
    ROWS: tl.constexpr,
    FULL: tl.constexpr,
):
    """Read some pieces again and write them."""
    xs = ()
    for i in tl.static_range(ROWS):
        xs += (
            load_piece(
                x_ptr, channel, piece + i, end, channels, pixels, parts, PIECE, FULL, "", "evict_first"
            ),
        )
    for i in tl.static_range(ROWS):
        store_piece(y_ptr, xs[i], scale, shift, channel, piece + i, end, channels, pixels, parts, PIECE, FULL)


@triton.jit
def batch_norm_kernel(
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    moments_ptr,
    done_ptr,
    channels,
    pixels,
    parts,
    pieces,
    far,
    steps,
    lead,
    eps,
    momentum,
    FULL: tl.constexpr,
    PADDED: tl.constexpr,
    LANES: tl.constexpr,
    PIECE: tl.constexpr,
    ROWS: tl.constexpr,
    HOLD: tl.constexpr,
    KEEP: tl.constexpr,
):
    """A program's pieces are ROWS for each of some far steps, ROWS for each of some near ones, and HOLD to hold."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    share = steps * ROWS + HOLD
    first = program * share
    end = tl.minimum(first + share, pieces)
    held_at = first + steps * ROWS
    count = tl.zeros([LANES], tl.float32)
    mean = tl.zeros([LANES], tl.float32)
    m2 = tl.zeros([LANES], tl.float32)
    for channel in range(channels):
        for step in range(tl.where(channel == 0, 0, lead), far):
            count, mean, m2, _ = read_pieces(
                x_ptr,
                count,
                mean,
                m2,
                channel,
                first + step * ROWS,
                end,
                channels,
                pixels,
                parts,
                PIECE,
                ROWS,
                LANES,
                FULL,
                ".cg" if KEEP == "" else "",
                KEEP,
            )
        for step in range(far, steps):
            count, mean, m2, _ = read_pieces(
                x_ptr,
                count,
                mean,
                m2,
                channel,
                first + step * ROWS,
                end,
                channels,
                pixels,
                parts,
                PIECE,
                ROWS,
                LANES,
                FULL,
                "",
                "evict_last",
            )
        count, mean, m2, held = read_pieces(
            x_ptr,
            count,
            mean,
            m2,
            channel,
            held_at,
            end,
            channels,
            pixels,
            parts,
            PIECE,
            HOLD,
            LANES,
            FULL,
            "",
            "evict_first",
        )
        numbers = tl.sum(count, axis=0)
        center = tl.sum(count * mean, axis=0) / tl.maximum(numbers, 1.0)
        at = moments_ptr + channel * 3 * PADDED
        tl.store(at + program, numbers)
        tl.store(at + PADDED + program, center)
        tl.store(at + 2 * PADDED + program, tl.sum(m2 + count * (mean - center) * (mean - center), axis=0))
        tl.debug_barrier()
        tl.atomic_add(done_ptr + channel, 1, sem="acq_rel")

        count = tl.zeros([LANES], tl.float32)
        mean = tl.zeros([LANES], tl.float32)
        m2 = tl.zeros([LANES], tl.float32)
        for step in range(tl.where(channel + 1 < channels, lead, 0)):
            count, mean, m2, _ = read_pieces(
                x_ptr,
                count,
                mean,
                m2,
                channel + 1,
                first + step * ROWS,
                end,
                channels,
                pixels,
                parts,
                PIECE,
                ROWS,
                LANES,
                FULL,
                ".cg" if KEEP == "" else "",
                KEEP,
            )

        seen = tl.atomic_add(done_ptr + channel, 0, sem="acquire")
        while seen < programs:
            seen = tl.atomic_add(done_ptr + channel, 0, sem="acquire")
        # The compiler does not know that it is zero, so it works out addresses anew rather than keep them.
        zero = seen - programs
        other = tl.arange(0, PADDED)
        there = other < programs
        counts = tl.load(at + other, mask=there, other=0.0, cache_modifier=".cg")
        means = tl.load(at + PADDED + other, mask=there, other=0.0, cache_modifier=".cg")
        m2s = tl.load(at + 2 * PADDED + other, mask=there, other=0.0, cache_modifier=".cg")
        n = tl.sum(counts, axis=0)
        middle = tl.sum(counts * means, axis=0) / n
        total = tl.sum(m2s + counts * (means - middle) * (means - middle), axis=0)
        scale = tl.load(weight_ptr + channel).to(tl.float32) / tl.sqrt(total / n + eps)
        shift = tl.load(bias_ptr + channel).to(tl.float32) - middle * scale
        if program == 0:
            old_mean = tl.load(running_mean_ptr + channel).to(tl.float32)
            old_var = tl.load(running_var_ptr + channel).to(tl.float32)
            tl.store(running_mean_ptr + channel, old_mean + momentum * (middle - old_mean))
            tl.store(running_var_ptr + channel, old_var + momentum * (total / (n - 1.0) - old_var))
            if channel == 0:
                tl.store(batches_ptr, tl.load(batches_ptr) + 1)

        for i in tl.static_range(HOLD):
            store_piece(
                y_ptr,
                held[i],
                scale,
                shift,
                channel,
                held_at + i + zero,
                end,
                channels,
                pixels,
                parts,
                PIECE,
                FULL,
            )
        for back in range(steps):
            write_pieces(
                x_ptr,
                y_ptr,
                scale,
                shift,
                channel,
                first + (steps - 1 - back) * ROWS,
                end,
                channels,
                pixels,
                parts,
                PIECE,
                ROWS,
                FULL,
            )


@triton.jit
def apply_kernel(x_ptr, y_ptr, scale_ptr, shift_ptr, channels, pixels, parts, BLOCK: tl.constexpr):
    """Scale and shift, where the statistics are given: in evaluation mode."""
    plane = tl.program_id(0) // parts
    column = tl.program_id(0) % parts * BLOCK + tl.arange(0, BLOCK)
    offset = plane.to(tl.int64) * pixels
    scale = tl.load(scale_ptr + plane % channels).to(tl.float32)
    shift = tl.load(shift_ptr + plane % channels).to(tl.float32)
    x = tl.load(x_ptr + offset + column, mask=column < pixels).to(tl.float32)
    tl.store(y_ptr + offset + column, x * scale + shift, mask=column < pixels)


class ModelNew(nn.Module):
    """Batch normalisation over channels."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        bn, tile = self.bn, TILE
        batch, channels = x.shape[:2]
        pixels = x[0, 0].numel()
        if batch * pixels >= 2**30:
            raise ValueError("this kernel is written for smaller channels")
        if not bn.training:
            scale = bn.weight.float() * torch.rsqrt(bn.running_var.float() + bn.eps)
            shift = bn.bias.float() - bn.running_mean.float() * scale
            parts = triton.cdiv(pixels, 4096)
            apply_kernel[(batch * channels * parts,)](
                x, y, scale, shift, channels, pixels, parts, BLOCK=4096, num_warps=8
            )
            return y
        parts = triton.cdiv(pixels, tile["PIECE"])
        pieces = batch * parts
        programs = at_once(x.device)
        steps = triton.cdiv(max(triton.cdiv(pieces, programs) - tile["HOLD"], 0), tile["ROWS"])
        share = steps * tile["ROWS"] + tile["HOLD"]
        programs = triton.cdiv(pieces, share)
        far = max(steps - tile["NEAR"], 0)
        padded = triton.next_power_of_2(programs)
        moments = torch.empty((channels, 3, padded), device=x.device, dtype=torch.float32)
        done = torch.zeros(channels, device=x.device, dtype=torch.int32)
        batch_norm_kernel[(programs,)](
            x,
            y,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            moments,
            done,
            channels,
            pixels,
            parts,
            pieces,
            far,
            steps,
            min(tile["LEAD"], far),
            bn.eps,
            bn.momentum,
            FULL=pixels % tile["PIECE"] == 0 and pieces % share == 0,
            PADDED=padded,
            LANES=32 * tile["num_warps"],
            PIECE=tile["PIECE"],
            ROWS=tile["ROWS"],
            HOLD=tile["HOLD"],
            KEEP=tile["KEEP"],
            num_warps=tile["num_warps"],
            num_stages=1,
            maxnreg=tile["maxnreg"],
            **({} if x.device.type == "cpu" else {"launch_cooperative_grid": True}),
        )
        return y


def at_once(device: torch.device) -> int:
    """How many programs run at once: one, where they run one after another."""
    if device.type == "cpu":
        return 1
    if device.type != "cuda":
        return TILE["PER"] * 132
    return TILE["PER"] * torch.cuda.get_device_properties(device).multi_processor_count
