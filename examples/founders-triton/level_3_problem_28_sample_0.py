"""Vision transformer over the batch axis: seven launches a layer, all replayed as one CUDA graph.

Attention is one kernel that reads the joint projection in place, a sequence being the two images' tokens at one
position. Bias and ReLU happen on the accumulators of the linear layers. There are few tokens, so the two that end in a
norm share their depth among programs; the norm adds up the shares, the bias and the residual. Every token is
computed, although class tokens only meet class tokens. Products take three TF32 passes on the tensor cores, which
keeps the accuracy of fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "OUT": 2, "DOWN": 4, "num_warps": 4, "num_stages": 3}
"""A tile of the linear layers, and among how many programs the two of a layer that end in a norm share their depth."""


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K: tl.constexpr,
    RELU: tl.constexpr,
    BIAS: tl.constexpr,
    SHARES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of a W^T, or of a share of it, with bias and ReLU if asked for."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    group = tl.minimum(tiles_m - first_m, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    tile_m, tile_n = first_m + within % group, within // group
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    share: tl.constexpr = (K + SHARES * BLOCK_K - 1) // (SHARES * BLOCK_K) * BLOCK_K
    depth = tl.program_id(1) * share + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % M).to(tl.int64)[:, None] * K + depth[None, :]
    w_ptrs = w_ptr + (columns % N).to(tl.int64)[:, None] * K + depth[None, :]
    x = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, share, BLOCK_K):
        a = tl.load(a_ptrs, mask=depth[None, :] < K - start, other=0.0)
        w = tl.load(w_ptrs, mask=depth[None, :] < K - start, other=0.0)
        x = tl.dot(a, tl.trans(w), x, input_precision="tf32x3")
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    if BIAS:
        x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if RELU:
        x = tl.where(x < 0.0, 0.0, x)
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + tl.program_id(1).to(tl.int64) * M * N + offsets, x, mask=mask)


@triton.jit
def norm_kernel(
    x_ptr,
    before_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    rows,
    eps,
    SHARES: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Layer norm of some rows, each the sum of its shares, a bias and a residual."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    mask = (row < rows)[:, None] & inside[None, :]
    offsets = row[:, None] * WIDTH + column[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    for share in tl.static_range(1, SHARES):
        x += tl.load(x_ptr + (offsets + share * WIDTH * rows), mask=mask, other=0.0)
    x += tl.load(before_ptr + column, mask=inside, other=0.0)[None, :]
    x += tl.load(residual_ptr + offsets, mask=mask, other=0.0)
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


def linear(x: torch.Tensor, layer: nn.Linear, *, relu: bool = False) -> torch.Tensor:
    """x W^T + b over the last dimension, with ReLU if asked for."""
    return product(x, layer.weight, layer.bias, relu=relu)[0]


def product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, relu: bool = False, shares: int = 1
) -> torch.Tensor:
    """A linear layer given by its parameters, in shares of its depth, (shares, ..., outputs)."""
    n, k = weight.shape
    m = x.numel() // k
    out = torch.empty((shares, *x.shape[:-1], n), device=x.device, dtype=x.dtype)
    tile = {key: value for key, value in TILE.items() if key not in ("OUT", "DOWN")}
    linear_kernel[(triton.cdiv(m, tile["BLOCK_M"]) * triton.cdiv(n, tile["BLOCK_N"]), shares)](
        x,
        weight,
        x if bias is None else bias,
        out,
        m,
        n,
        K=k,
        RELU=relu,
        BIAS=bias is not None,
        SHARES=shares,
        GROUP=8,
        **tile,
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


def add_and_norm(x: torch.Tensor, layer: nn.Linear, shares: int, residual: torch.Tensor, norm: nn.LayerNorm):
    """Layer norm over the last dimension of a linear layer of x and a residual."""
    parts = product(x, layer.weight, None, shares=shares)
    width = residual.shape[-1]
    rows = residual.numel() // width
    block = triton.next_power_of_2(width)
    height = max(1, 1024 // block)
    out = torch.empty_like(residual)
    norm_kernel[(triton.cdiv(rows, height),)](
        parts,
        layer.bias,
        residual,
        norm.weight,
        norm.bias,
        out,
        rows,
        norm.eps,
        SHARES=shares,
        WIDTH=width,
        ROWS=height,
        BLOCK=block,
        num_warps=4,
    )
    return out


def encode(x: torch.Tensor, layer: nn.TransformerEncoderLayer) -> torch.Tensor:
    """One post-norm encoder layer over (batch, length, width), the batch being the sequence."""
    attention = layer.self_attn
    qkv = product(x, attention.in_proj_weight, attention.in_proj_bias)[0]
    attended = attend(qkv, attention.num_heads)
    x = add_and_norm(attended, attention.out_proj, TILE["OUT"], x, layer.norm1)
    hidden = linear(x, layer.linear1, relu=True)
    return add_and_norm(hidden, layer.linear2, TILE["DOWN"], x, layer.norm2)


class Network(nn.Module):
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


class ModelNew(Network):
    """The network, replayed as a CUDA graph: of a copy of the input, and giving a copy of the output."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tensors = []
        self.recorded = None

    def record(self, x):
        """Record the network's work on a copy of x."""
        self.input = x.clone()
        self.tensors = [*self.parameters(), *self.buffers()]
        with torch.no_grad():
            here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
            aside.wait_stream(here)
            with torch.cuda.stream(aside):
                for _ in range(2):
                    super().forward(self.input)
            here.wait_stream(aside)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = super().forward(self.input)
        self.recorded = self.places(x)

    def places(self, x):
        """What a record holds for: a shape, a tile, and where the parameters and buffers lie."""
        return x.shape, x.dtype, TILE, [tensor.data_ptr() for tensor in self.tensors]

    def forward(self, img):
        if not img.is_cuda:
            return super().forward(img)
        if self.recorded != self.places(img):
            self.record(img)
        self.input.copy_(img)
        self.graph.replay()
        return self.output.clone()
