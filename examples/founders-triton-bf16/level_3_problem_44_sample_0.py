"""A transformer block: PyTorch's products around kernels for attention, for layer norm with the sum before it, and
GELU.

The attention kernel reads queries, keys and values where the joint projection left them, walks over the keys up to the
diagonal and never writes a score.

Inputs, weights and outputs are bf16; sums, softmax and what is between are fp32, the weights of the values bf16.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK": 64, "KEYS": 32, "num_warps": 4, "num_stages": 3}
LOG2_E = 1.4426950408889634


@triton.jit
def attention_kernel(
    qkv_ptr,
    out_ptr,
    length,
    heads,
    scale,
    ROW: tl.constexpr,
    SAMPLE_STEP,
    OUT_ROW: tl.constexpr,
    OUT_SAMPLE_STEP,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    CAUSAL: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
):
    """One block of queries of one head; the joint projection is read in place. The scale holds log2(e)."""
    sample, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    width = heads * SIZE
    base = qkv_ptr + sample * SAMPLE_STEP + head * SIZE
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    rows = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, PADDED)
    inside = columns[None, :] < SIZE
    row_mask = (rows[:, None] < length) & inside
    q = tl.load(base + rows.to(tl.int64)[:, None] * ROW + columns[None, :], mask=row_mask, other=0.0)
    peak = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    out = tl.zeros([BLOCK, PADDED], tl.float32)
    last = length
    if CAUSAL:
        last = tl.minimum(first + BLOCK, length)
    for start in range(0, last, KEYS):
        keys = start + tl.arange(0, KEYS)
        offsets = keys.to(tl.int64)[:, None] * ROW + columns[None, :]
        key_mask = (keys[:, None] < length) & inside
        k = tl.load(base + width + offsets, mask=key_mask, other=0.0)
        v = tl.load(base + 2 * width + offsets, mask=key_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        seen = keys[None, :] < length
        if CAUSAL:
            seen = seen & (rows[:, None] >= keys[None, :])
        scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        rescale = tl.exp2(peak - new_peak)
        total = total * rescale + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(v.dtype), v, out * rescale[:, None])
        peak = new_peak
    offsets = sample * OUT_SAMPLE_STEP + rows.to(tl.int64)[:, None] * OUT_ROW + head * SIZE + columns[None, :]
    tl.store(out_ptr + offsets, out / total[:, None], mask=row_mask)


@triton.jit
def norm_kernel(
    x_ptr,
    added_ptr,
    sum_ptr,
    out_ptr,
    weight_ptr,
    bias_ptr,
    eps,
    ADDED: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Layer norm of a row of x, or of its sum with another, which is written too."""
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    offsets = tl.program_id(0).to(tl.int64) * WIDTH + columns
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    if ADDED:
        x += tl.load(added_ptr + offsets, mask=inside, other=0.0)
        tl.store(sum_ptr + offsets, x, mask=inside)
    x = x.to(tl.float32)
    x = tl.where(inside, x - tl.sum(x, axis=0) / WIDTH, 0.0)
    x *= 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / WIDTH + eps)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * weight + bias, mask=inside)


@triton.jit
def gelu_kernel(x_ptr, size, BLOCK: tl.constexpr):
    """GELU in the tanh approximation, in place."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < size, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(x_ptr + offsets, x * (1.0 - 1.0 / (1.0 + tl.exp(2.0 * inner))), mask=offsets < size)


def norm(
    x: torch.Tensor, layer: nn.LayerNorm, added: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is normalised, x or its sum with another tensor, and the result."""
    width = x.shape[-1]
    out = torch.empty_like(x)
    total = x if added is None else torch.empty_like(x)
    norm_kernel[(x.numel() // width,)](
        x,
        x if added is None else added,
        total,
        out,
        layer.weight,
        layer.bias,
        layer.eps,
        ADDED=added is not None,
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width),
        num_warps=2,
    )
    return total, out


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Causal attention over a joint projection (batch, length, 3 * width); returns (batch, length, width)."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    size = width // heads
    out = torch.empty((batch, length, width), device=qkv.device, dtype=qkv.dtype)
    attention_kernel[(triton.cdiv(length, TILE["BLOCK"]), batch * heads)](
        qkv,
        out,
        length,
        heads,
        LOG2_E * size**-0.5,
        ROW=3 * width,
        SAMPLE_STEP=length * 3 * width,
        OUT_ROW=width,
        OUT_SAMPLE_STEP=length * width,
        SIZE=size,
        PADDED=triton.next_power_of_2(size),
        CAUSAL=True,
        **TILE,
    )
    return out


class NewGELU(nn.Module):
    """GELU in the tanh approximation."""


class CausalSelfAttention(nn.Module):
    """Causal softmax attention with joint query, key and value projection."""

    def __init__(self, n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(attn_pdrop)
        self.resid_dropout = nn.Dropout(resid_pdrop)
        allowed = torch.tril(torch.ones(max_seqlen, max_seqlen))
        self.register_buffer("bias", allowed.view(1, 1, max_seqlen, max_seqlen))
        self.n_head = n_head

    def forward(self, x):
        qkv = F.linear(x, self.c_attn.weight, self.c_attn.bias)
        return F.linear(attend(qkv, self.n_head), self.c_proj.weight, self.c_proj.bias)


class ModelNew(nn.Module):
    """A pre-norm transformer block of causal attention and feed-forward."""

    def __init__(self, n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen):
        super().__init__()
        if attn_pdrop or resid_pdrop:
            raise ValueError("this kernel is written for dropout probabilities of zero")
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(n_embd, 4 * n_embd),
                "c_proj": nn.Linear(4 * n_embd, n_embd),
                "act": NewGELU(),
                "dropout": nn.Dropout(resid_pdrop),
            }
        )

    def forward(self, x):
        fc, proj = self.mlp["c_fc"], self.mlp["c_proj"]
        x = x.contiguous()
        _, normed = norm(x, self.ln_1)
        x, normed = norm(x, self.ln_2, self.attn(normed))
        hidden = F.linear(normed, fc.weight, fc.bias)
        gelu_kernel[(triton.cdiv(hidden.numel(), 4096),)](hidden, hidden.numel(), BLOCK=4096, num_warps=4)
        return x + F.linear(hidden, proj.weight, proj.bias)
