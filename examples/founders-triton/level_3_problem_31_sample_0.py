"""Self-attention over pixels, residual sum and layer norm in four kernels.

The projection reads the image as it lies, channels first. The attention kernel walks over the keys with a running
maximum and never writes a score; eager PyTorch writes all of them, and averages the weights over the heads for a
result that is thrown away. The last kernel projects 64 positions, adds the image, normalises and writes channels
first. The attention's factors are brought to a fixed range by a power of two a block and split into two fp16 numbers,
high and low, whose three larger products are added up in fp32; the projections' products take three TF32 passes. Both
keep the accuracy of fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

KEYS = 64
LOG2_E = 1.4426950408889634


@triton.jit
def project_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    qkv_ptr,
    positions,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    sample = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    out = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, WIDTH, 32):
        depth = start + tl.arange(0, 32)
        a_offsets = (sample * WIDTH + depth[:, None]) * positions + rows[None, :]
        a = tl.load(x_ptr + a_offsets, mask=rows[None, :] < positions, other=0.0)
        w = tl.load(w_ptr + columns[:, None] * WIDTH + depth[None, :])
        out = tl.dot(tl.trans(a), tl.trans(w), out, input_precision="tf32x3")
    out += tl.load(bias_ptr + columns)[None, :]
    offsets = (sample * positions + rows[:, None]) * 3 * WIDTH + columns[None, :]
    tl.store(qkv_ptr + offsets, out, mask=rows[:, None] < positions)


@triton.jit
def split_kernel(
    qkv_ptr,
    parts_ptr,
    unscale_ptr,
    positions,
    padded,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Split one block of queries, keys or values of one head; parts are (3, 2, samples * heads, padded, SIZE)."""
    block, group, which = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sample, head = (group // HEADS).to(tl.int64), group % HEADS
    rows = block * KEYS + tl.arange(0, KEYS)
    columns = tl.arange(0, SIZE)
    offsets = (
        ((sample * positions + rows[:, None]) * 3 + which) * HEADS * SIZE + head * SIZE + columns[None, :]
    )
    x = tl.load(qkv_ptr + offsets, mask=rows[:, None] < positions, other=0.0)
    exponent = tl.max(tl.max(tl.abs(x), axis=1), axis=0).to(tl.int32, bitcast=True) >> 23
    power = tl.minimum(268 - exponent, 253)
    slot = (which * tl.num_programs(1) + group) * tl.num_programs(0) + block
    tl.store(unscale_ptr + slot, ((254 - power) << 23).to(tl.float32, bitcast=True))
    x *= (power << 23).to(tl.float32, bitcast=True)
    high = x.to(tl.float16)
    low = (x - high.to(tl.float32)).to(tl.float16)
    place = (which * 2 * tl.num_programs(1) + group).to(tl.int64) * padded * SIZE
    slots = rows[:, None] * SIZE + columns[None, :]
    tl.store(parts_ptr + place + slots, high)
    tl.store(parts_ptr + place + tl.num_programs(1).to(tl.int64) * padded * SIZE + slots, low)


@triton.jit
def attention_kernel(
    parts_ptr,
    unscale_ptr,
    out_ptr,
    positions,
    padded,
    factor,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
    EVEN: tl.constexpr,
):
    """Attention of one block of queries of one head; factor is the scores' scale times log2(e)."""
    group, groups = tl.program_id(1), tl.num_programs(1)
    blocks = padded // KEYS
    part = groups.to(tl.int64) * padded * SIZE
    base = parts_ptr + group.to(tl.int64) * padded * SIZE
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, SIZE)
    # The last block of queries may start in the padding's middle: what lies behind it is read again, never stored.
    slots = (rows % padded)[:, None] * SIZE + columns[None, :]
    q_high = tl.load(base + slots)
    q_low = tl.load(base + part + slots)
    q_unscale = tl.load(unscale_ptr + group * blocks + (rows % padded) // KEYS) * factor
    k_unscale_ptr = unscale_ptr + (groups + group) * blocks
    v_unscale_ptr = unscale_ptr + (2 * groups + group) * blocks
    keys = tl.arange(0, KEYS)
    k_ptrs = base + 2 * part + keys[:, None] * SIZE + columns[None, :]
    peak = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    out = tl.zeros([BLOCK, SIZE], tl.float32)
    for block in range(0, blocks):
        k_high = tl.load(k_ptrs)
        k_low = tl.load(k_ptrs + part)
        v_high = tl.load(k_ptrs + 2 * part)
        v_low = tl.load(k_ptrs + 3 * part)
        scores = tl.dot(q_low, tl.trans(k_high))
        scores = tl.dot(q_high, tl.trans(k_low), scores)
        scores = tl.dot(q_high, tl.trans(k_high), scores)
        scores *= (q_unscale * tl.load(k_unscale_ptr + block))[:, None]
        if not EVEN:
            scores = tl.where((block * KEYS + keys < positions)[None, :], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        # Weights times 2^14, so that their lower parts stay normal numbers; the total carries the same factor.
        weights = tl.exp2(scores - new_peak[:, None]) * 16384.0
        rescale = tl.exp2(peak - new_peak)
        total = total * rescale + tl.sum(weights, axis=1)
        high = weights.to(tl.float16)
        low = (weights - high.to(tl.float32)).to(tl.float16)
        mixed = tl.dot(low, v_high)
        mixed = tl.dot(high, v_low, mixed)
        mixed = tl.dot(high, v_high, mixed)
        out = out * rescale[:, None] + mixed * tl.load(v_unscale_ptr + block)
        peak = new_peak
        k_ptrs += KEYS * SIZE
    sample, head = (group // HEADS).to(tl.int64), group % HEADS
    offsets = (sample * positions + rows[:, None]) * (HEADS * SIZE) + head * SIZE + columns[None, :]
    tl.store(out_ptr + offsets, out / total[:, None], mask=rows[:, None] < positions)


@triton.jit
def finish_kernel(
    attended_ptr,
    w_ptr,
    bias_ptr,
    x_ptr,
    weight_ptr,
    shift_ptr,
    y_ptr,
    positions,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    sample = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    projected = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, WIDTH, 32):
        depth = start + tl.arange(0, 32)
        a_offsets = (sample * positions + rows[:, None]) * WIDTH + depth[None, :]
        a = tl.load(attended_ptr + a_offsets, mask=rows[:, None] < positions, other=0.0)
        w = tl.load(w_ptr + columns[:, None] * WIDTH + depth[None, :])
        projected = tl.dot(a, tl.trans(w), projected, input_precision="tf32x3")
    offsets = (sample * WIDTH + columns[:, None]) * positions + rows[None, :]
    mask = rows[None, :] < positions
    z = (
        tl.trans(projected)
        + tl.load(bias_ptr + columns)[:, None]
        + tl.load(x_ptr + offsets, mask=mask, other=0.0)
    )
    z -= (tl.sum(z, axis=0) / WIDTH)[None, :]
    z = z * (1.0 / tl.sqrt(tl.sum(z * z, axis=0) / WIDTH + eps))[None, :]
    z = z * tl.load(weight_ptr + columns)[:, None] + tl.load(shift_ptr + columns)[:, None]
    tl.store(y_ptr + offsets, z, mask=mask)


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Attention over a joint projection (batch, positions, 3 * width); returns (batch, positions, width)."""
    batch, positions, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    size, groups = width // heads, batch * heads
    blocks = triton.cdiv(positions, KEYS)
    parts = torch.empty((3, 2, groups, blocks * KEYS, size), device=qkv.device, dtype=torch.float16)
    unscale = torch.empty((3, groups, blocks), device=qkv.device, dtype=torch.float32)
    split_kernel[(blocks, groups, 3)](
        qkv, parts, unscale, positions, blocks * KEYS, HEADS=heads, SIZE=size, KEYS=KEYS, num_warps=4
    )
    out = torch.empty((batch, positions, width), device=qkv.device, dtype=qkv.dtype)
    attention_kernel[(triton.cdiv(positions, 128), groups)](
        parts,
        unscale,
        out,
        positions,
        blocks * KEYS,
        size**-0.5 * LOG2_E,
        HEADS=heads,
        SIZE=size,
        BLOCK=128,
        KEYS=KEYS,
        EVEN=positions % KEYS == 0,
        num_warps=8,
        num_stages=3,
    )
    return out


class ModelNew(nn.Module):
    """Multi-head self-attention over pixels with a residual connection and layer norm."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x):
        x = x.contiguous()
        batch, width, height, breadth = x.shape
        positions, heads = height * breadth, self.attn.num_heads
        qkv = torch.empty((batch, positions, 3 * width), device=x.device, dtype=x.dtype)
        project_kernel[(triton.cdiv(positions, 128), 3 * width // 64, batch)](
            x,
            self.attn.in_proj_weight,
            self.attn.in_proj_bias,
            qkv,
            positions,
            WIDTH=width,
            BLOCK_M=128,
            BLOCK_N=64,
            num_warps=8,
            num_stages=2,
        )
        attended = attend(qkv, heads)
        y = torch.empty_like(x)
        out = self.attn.out_proj
        finish_kernel[(triton.cdiv(positions, 64), batch)](
            attended,
            out.weight,
            out.bias,
            x,
            self.norm.weight,
            self.norm.bias,
            y,
            positions,
            self.norm.eps,
            WIDTH=width,
            BLOCK=64,
            num_warps=4,
            num_stages=2,
        )
        return y
