"""Batch normalisation in training mode, channel after channel, so that the second read finds its data in the L2 cache.

A channel has 33 MB. Its pieces are read for their moments, the mean and the sum of squares around it. Then they are
read again and written, the last ones first, so that what is still in the cache is read before it is lost. A program
does one or the other for one piece. The program that publishes a channel's last moments joins them, folds weight and
bias into a scale and a shift, and updates the running statistics. Meanwhile others read LEAD pieces of the next
channel, so that few wait. They do so only for programs that began before them, so that none waits for ever: programs
take tickets, in whatever order they are started.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 16384, "LEAD": 264, "KEEP": "evict_last", "num_warps": 8, "maxnreg": 80}


@triton.jit
def join(
    moments_ptr,
    fold_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    batches_ptr,
    channel,
    pixels,
    parts,
    pieces,
    eps,
    momentum,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scale and shift of a channel from the moments of its pieces."""
    piece = tl.arange(0, PADDED)
    mask = piece < pieces
    at = moments_ptr + channel * 2 * PADDED + piece
    n = (pieces // parts * pixels).to(tl.float32)
    count = tl.where(mask, tl.minimum(pixels - piece % parts * BLOCK, BLOCK), 0).to(tl.float32)
    mean = tl.load(at, mask=mask, other=0.0, cache_modifier=".cg")
    m2 = tl.load(at + PADDED, mask=mask, other=0.0, cache_modifier=".cg")
    center = tl.sum(count * mean, axis=0) / n
    total = tl.sum(m2 + count * (mean - center) * (mean - center), axis=0)
    scale = tl.load(weight_ptr + channel).to(tl.float32) / tl.sqrt(total / n + eps)
    tl.store(fold_ptr + channel * 2, scale)
    tl.store(fold_ptr + channel * 2 + 1, tl.load(bias_ptr + channel).to(tl.float32) - center * scale)
    old_mean = tl.load(running_mean_ptr + channel).to(tl.float32)
    old_var = tl.load(running_var_ptr + channel).to(tl.float32)
    tl.store(running_mean_ptr + channel, old_mean + momentum * (center - old_mean))
    tl.store(running_var_ptr + channel, old_var + momentum * (total / (n - 1.0) - old_var))
    if channel == 0:
        tl.store(batches_ptr, tl.load(batches_ptr) + 1)


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
    fold_ptr,
    done_ptr,
    channels,
    pixels,
    parts,
    pieces,
    lead,
    eps,
    momentum,
    EVEN: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP: tl.constexpr,
):
    """A channel's counters say how many moments are there and whether scale and shift are; behind is the tickets'.

    The first LEAD tickets are for reading. Then those for reading so many pieces as a channel has and those for
    writing a channel take turns.
    """
    ticket = tl.atomic_add(done_ptr + 2 * channels, 1, sem="relaxed")
    turn = tl.maximum(ticket - lead, 0) // (2 * pieces)
    place = tl.maximum(ticket - lead, 0) % (2 * pieces)
    lanes = tl.arange(0, BLOCK)
    if place < pieces:
        read = tl.where(ticket < lead, ticket, lead + turn * pieces + place)
        if read < channels * pieces:
            channel, piece = read // pieces, read % pieces
            start = piece % parts * BLOCK
            mask = None if EVEN else lanes < pixels - start
            offset = (piece // parts * channels + channel).to(tl.int64) * pixels + start
            x = tl.load(x_ptr + offset + lanes, mask=mask, other=None if EVEN else 0.0, eviction_policy=KEEP)
            values = x.to(tl.float32)
            mean = tl.sum(values, axis=0) / tl.minimum(pixels - start, BLOCK)
            delta = values - mean if EVEN else tl.where(lanes < pixels - start, values - mean, 0.0)
            at = moments_ptr + channel * 2 * PADDED + piece
            tl.store(at, mean)
            tl.store(at + PADDED, tl.sum(delta * delta, axis=0))
            tl.debug_barrier()
            if tl.atomic_add(done_ptr + 2 * channel, 1, sem="acq_rel") == pieces - 1:
                join(
                    moments_ptr,
                    fold_ptr,
                    weight_ptr,
                    bias_ptr,
                    running_mean_ptr,
                    running_var_ptr,
                    batches_ptr,
                    channel,
                    pixels,
                    parts,
                    pieces,
                    eps,
                    momentum,
                    PADDED,
                    BLOCK,
                )
                tl.debug_barrier()
                tl.atomic_add(done_ptr + 2 * channel + 1, 1, sem="release")
    else:
        piece = 2 * pieces - 1 - place
        start = piece % parts * BLOCK
        mask = None if EVEN else lanes < pixels - start
        offset = (piece // parts * channels + turn).to(tl.int64) * pixels + start
        x = tl.load(x_ptr + offset + lanes, mask=mask, eviction_policy="evict_first")
        while tl.atomic_add(done_ptr + 2 * turn + 1, 0, sem="acquire") < 1:
            pass
        scale = tl.load(fold_ptr + 2 * turn, cache_modifier=".cg")
        shift = tl.load(fold_ptr + 2 * turn + 1, cache_modifier=".cg")
        y = (x.to(tl.float32) * scale + shift).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + offset + lanes, y, mask=mask, eviction_policy="evict_first")


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
        bn = self.bn
        batch, channels = x.shape[:2]
        pixels = x[0, 0].numel()
        parts = triton.cdiv(pixels, TILE["BLOCK"])
        pieces = batch * parts
        lead = TILE["LEAD"]
        padded = triton.next_power_of_2(pieces)
        tickets = lead + 2 * channels * pieces
        if (
            padded > 2**14
            or batch * pixels >= 2**31
            or tickets + lead >= 2**31
            or 2 * channels * padded >= 2**31
        ):
            raise ValueError("this kernel is written for fewer pieces")
        if not bn.training:
            scale = bn.weight.float() * torch.rsqrt(bn.running_var.float() + bn.eps)
            shift = bn.bias.float() - bn.running_mean.float() * scale
            apply_kernel[(channels * pieces,)](
                x, y, scale, shift, channels, pixels, parts, BLOCK=TILE["BLOCK"], num_warps=TILE["num_warps"]
            )
            return y
        moments = torch.empty((channels, 2, padded), device=x.device, dtype=torch.float32)
        fold = torch.empty((channels, 2), device=x.device, dtype=torch.float32)
        done = torch.zeros(2 * channels + 1, device=x.device, dtype=torch.int32)
        batch_norm_kernel[(tickets,)](
            x,
            y,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            bn.num_batches_tracked,
            moments,
            fold,
            done,
            channels,
            pixels,
            parts,
            pieces,
            lead,
            bn.eps,
            bn.momentum,
            EVEN=pixels % TILE["BLOCK"] == 0,
            PADDED=padded,
            BLOCK=TILE["BLOCK"],
            KEEP=TILE["KEEP"],
            num_warps=TILE["num_warps"],
            maxnreg=TILE["maxnreg"],
        )
        return y
