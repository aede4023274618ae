"""Vision transformer over the batch axis: seven launches a layer.

Attention is one kernel that reads the joint projection in place, a sequence being the two images' tokens at one
position; bias, ReLU and residual sums happen on the accumulators of the linear layers. Every token is computed,
although class tokens only meet class tokens. Products take three TF32 passes on the tensor cores, which keeps the
accuracy of fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

PROGRAMS = 132


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
    bias_ptr,
    residual_ptr,
    out_ptr,
    M,
    N,
    K: tl.constexpr,
    RELU: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of a W^T, with bias, and with ReLU and a residual sum if asked for."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    group = tl.minimum(tiles_m - first_m, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    tile_m, tile_n = first_m + within % group, within // group
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % M).to(tl.int64)[:, None] * K + depth[None, :]
    w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=depth[None, :] < K - start, other=0.0)
        w = tl.load(w_ptrs, mask=depth[None, :] < K - start, other=0.0)
        x = tl.dot(a, tl.trans(w), x, input_precision="tf32x3")
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if RELU:
        x = tl.where(x < 0.0, 0.0, x)
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    if RESIDUAL:
        x += tl.load(residual_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    rows,
    eps,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Layer norm of some rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    mask = (row < rows)[:, None] & inside[None, :]
    offsets = row[:, None] * WIDTH + column[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    x = tl.where(inside[None, :], x - (tl.sum(x, axis=1) / WIDTH)[:, None], 0.0)
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps))[:, None]
    x = x * tl.load(weight_ptr + column, mask=inside, other=0.0)[None, :]
    x += tl.load(bias_ptr + column, mask=inside, other=0.0)[None, :]
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def attention_kernel(
    qkv_ptr,
    out_ptr,
    batch,
    length,
    scale,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PADDED_HEADS: tl.constexpr,
    PADDED_SIZE: tl.constexpr,
):
    """Attention of one image's token to the tokens of all images at the same position, all heads at once."""
    position, image = tl.program_id(0), tl.program_id(1)
    width: tl.constexpr = HEADS * SIZE
    head, part = tl.arange(0, PADDED_HEADS), tl.arange(0, PADDED_SIZE)
    offsets = head[:, None] * SIZE + part[None, :]
    mask = (head < HEADS)[:, None] & (part < SIZE)[None, :]
    token = (image * length + position).to(tl.int64)
    q = tl.load(qkv_ptr + token * 3 * width + offsets, mask=mask, other=0.0) * scale
    peak = tl.full([PADDED_HEADS], float("-inf"), tl.float32)
    total = tl.zeros([PADDED_HEADS], tl.float32)
    out = tl.zeros([PADDED_HEADS, PADDED_SIZE], tl.float32)
    for other in range(0, batch):
        key_ptr = qkv_ptr + (other * length + position).to(tl.int64) * 3 * width + width
        k = tl.load(key_ptr + offsets, mask=mask, other=0.0)
        v = tl.load(key_ptr + width + offsets, mask=mask, other=0.0)
        score = tl.sum(q * k, axis=1)
        new_peak = tl.maximum(peak, score)
        weight = tl.exp(score - new_peak)
        rescale = tl.exp(peak - new_peak)
        total = total * rescale + weight
        out = out * rescale[:, None] + weight[:, None] * v
        peak = new_peak
    tl.store(out_ptr + token * width + offsets, out / total[:, None], mask=mask)


def linear(
    x: torch.Tensor, layer: nn.Linear, *, relu: bool = False, residual: torch.Tensor | None = None
) -> torch.Tensor:
    """x W^T + b over the last dimension, with ReLU or a residual sum if asked for."""
    return product(x, layer.weight, layer.bias, relu=relu, residual=residual)


def product(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    *,
    relu: bool = False,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """A linear layer given by its parameters; small tiles where large ones would leave multiprocessors idle."""
    n, k = weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    block_n = 64 if triton.cdiv(m, 64) * triton.cdiv(n, 64) >= PROGRAMS else 32
    linear_kernel[(triton.cdiv(m, 64) * triton.cdiv(n, block_n),)](
        x,
        weight,
        bias,
        x if residual is None else residual,
        out,
        m,
        n,
        K=k,
        RELU=relu,
        RESIDUAL=residual is not None,
        BLOCK_M=64,
        BLOCK_N=block_n,
        BLOCK_K=64,
        GROUP=8,
        num_warps=4,
        num_stages=3,
    )
    return out


def attend(qkv: torch.Tensor, heads: int) -> torch.Tensor:
    """Attention along the first dimension of a joint projection (batch, length, 3 * width)."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    size = width // heads
    out = torch.empty((batch, length, width), device=qkv.device, dtype=qkv.dtype)
    attention_kernel[(length, batch)](
        qkv,
        out,
        batch,
        length,
        size**-0.5,
        HEADS=heads,
        SIZE=size,
        PADDED_HEADS=triton.next_power_of_2(heads),
        PADDED_SIZE=triton.next_power_of_2(size),
        num_warps=4,
    )
    return out


def layer_norm(x: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    """Layer norm over the last dimension."""
    width = x.shape[-1]
    rows = x.numel() // width
    block = triton.next_power_of_2(width)
    height = max(1, 1024 // block)
    out = torch.empty_like(x)
    norm_kernel[(triton.cdiv(rows, height),)](
        x,
        norm.weight,
        norm.bias,
        out,
        rows,
        norm.eps,
        WIDTH=width,
        ROWS=height,
        BLOCK=block,
        num_warps=4,
    )
    return out


def encode(x: torch.Tensor, layer: nn.TransformerEncoderLayer) -> torch.Tensor:
    """One post-norm encoder layer over (batch, length, width), the batch being the sequence."""
    attention = layer.self_attn
    qkv = product(x, attention.in_proj_weight, attention.in_proj_bias)
    x = layer_norm(linear(attend(qkv, attention.num_heads), attention.out_proj, residual=x), layer.norm1)
    hidden = linear(x, layer.linear1, relu=True)
    return layer_norm(linear(hidden, layer.linear2, residual=x), layer.norm2)


class ModelNew(nn.Module):
    """A ViT classifier over a class token, with sequence-first encoder layers."""

    def __init__(
        self,
        image_size,
        patch_size,
        num_classes,
        dim,
        depth,
        heads,
        mlp_dim,
        channels=3,
        dropout=0.1,
        emb_dropout=0.1,
    ):
        super().__init__()
        if dropout or emb_dropout:
            raise ValueError("this kernel is written for dropout probabilities of zero")
        patches = (image_size // patch_size) ** 2
        self.patch_size = patch_size
        self.pos_embedding = nn.Parameter(torch.randn(1, patches + 1, dim))
        self.patch_to_embedding = nn.Linear(channels * patch_size**2, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        layer = nn.TransformerEncoderLayer(
            d_model=dim, nhead=heads, dim_feedforward=mlp_dim, dropout=dropout, batch_first=False
        )
        self.transformer = nn.TransformerEncoder(layer, num_layers=depth, enable_nested_tensor=False)
        self.mlp_head = nn.Sequential(
            nn.Linear(dim, mlp_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(mlp_dim, num_classes),
        )

    def forward(self, img):
        size = self.patch_size
        batch, channels = img.shape[:2]
        patches = img.unfold(2, size, size).unfold(3, size, size)
        x = linear(patches.reshape(batch, -1, size * size * channels), self.patch_to_embedding)
        x = torch.cat((self.cls_token.expand(batch, -1, -1), x), dim=1) + self.pos_embedding
        for layer in self.transformer.layers:
            x = encode(x, layer)
        return self.mlp_head(x[:, 0])
