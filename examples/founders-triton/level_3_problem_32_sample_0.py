"""Transformer over two tokens: one launch a layer.

cuDNN convolves; one kernel maps each image to its token, one kernel a layer does everything a layer does, one
sample a program, and one maps the class tokens to logits. All sums are fp32 additions: with two tokens a sample, the
time goes into launches and into reading the weights.

All of it is launched as one CUDA graph.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {}
"""There is nothing to choose."""


@triton.jit
def embed_kernel(
    x_ptr,
    w_ptr,
    bias_ptr,
    class_ptr,
    tokens_ptr,
    batch,
    K,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One feature of all image tokens, and of the class token in front of each."""
    feature = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, K, BLOCK):
        mask = start + lanes < K
        w = tl.load(w_ptr + feature * K + start + lanes, mask=mask, other=0.0)
        offsets = rows.to(tl.int64)[:, None] * K + start + lanes[None, :]
        x = tl.load(x_ptr + offsets, mask=(rows < batch)[:, None] & mask[None, :], other=0.0)
        total += x * w[None, :]
    token = tl.sum(total, axis=1) + tl.load(bias_ptr + feature)
    slots = tokens_ptr + rows * 2 * WIDTH + feature
    tl.store(slots, tl.zeros([ROWS], tl.float32) + tl.load(class_ptr + feature), mask=rows < batch)
    tl.store(slots + WIDTH, token, mask=rows < batch)


@triton.jit
def map_tokens(
    x_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    RELU: tl.constexpr,
):
    """Both tokens' x W^T + b, through memory; returns when every thread can read the result."""
    depth = tl.arange(0, PADDED)
    first = tl.load(x_ptr + depth, mask=depth < K, other=0.0)
    second = tl.load(x_ptr + K + depth, mask=depth < K, other=0.0)
    for start in range(0, N, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        mask = (rows < N)[:, None] & (depth < K)[None, :]
        w = tl.load(w_ptr + rows[:, None] * K + depth[None, :], mask=mask, other=0.0)
        bias = tl.load(bias_ptr + rows, mask=rows < N, other=0.0)
        y = tl.sum(w * first[None, :], axis=1) + bias
        z = tl.sum(w * second[None, :], axis=1) + bias
        if RELU:
            y = tl.where(y < 0.0, 0.0, y)
            z = tl.where(z < 0.0, 0.0, z)
        tl.store(out_ptr + rows, y, mask=rows < N)
        tl.store(out_ptr + N + rows, z, mask=rows < N)
    tl.debug_barrier()


@triton.jit
def attend(qkv_ptr, out_ptr, scale, WIDTH: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr):
    """Attention of two tokens; HEADS and SIZE are powers of two with the heads' width in WIDTH."""
    size: tl.constexpr = WIDTH // HEADS
    part = tl.arange(0, SIZE)
    offsets = tl.arange(0, HEADS)[:, None] * size + part[None, :]
    mask = (part < size)[None, :] & (offsets >= 0)
    first_key = tl.load(qkv_ptr + WIDTH + offsets, mask=mask, other=0.0)
    second_key = tl.load(qkv_ptr + 4 * WIDTH + offsets, mask=mask, other=0.0)
    first_value = tl.load(qkv_ptr + 2 * WIDTH + offsets, mask=mask, other=0.0)
    second_value = tl.load(qkv_ptr + 5 * WIDTH + offsets, mask=mask, other=0.0)
    for token in tl.static_range(2):
        query = tl.load(qkv_ptr + 3 * token * WIDTH + offsets, mask=mask, other=0.0) * scale
        first = tl.sum(query * first_key, axis=1)
        second = tl.sum(query * second_key, axis=1)
        peak = tl.maximum(first, second)
        first = tl.exp(first - peak)
        second = tl.exp(second - peak)
        whole = first + second
        mixed = first[:, None] * first_value + second[:, None] * second_value
        tl.store(out_ptr + token * WIDTH + offsets, mixed / whole[:, None], mask=mask)
    tl.debug_barrier()


@triton.jit
def add_norm(x_ptr, change_ptr, weight_ptr, bias_ptr, eps, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Layer norm of the sum of both tokens and their changes, in place of the tokens."""
    columns = tl.arange(0, PADDED)
    mask = columns < WIDTH
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + columns, mask=mask, other=0.0)
    for token in tl.static_range(2):
        slots = token * WIDTH + columns
        x = tl.load(x_ptr + slots, mask=mask, other=0.0) + tl.load(change_ptr + slots, mask=mask, other=0.0)
        x = tl.where(mask, x - tl.sum(x, axis=0) / WIDTH, 0.0)
        x = x / tl.sqrt(tl.sum(x * x, axis=0) / WIDTH + eps)
        # Warps may hold copies of the same columns: all of them read before one of them writes.
        tl.debug_barrier()
        tl.store(x_ptr + slots, x * weight + bias, mask=mask)
    tl.debug_barrier()


@triton.jit
def layer_kernel(
    tokens_ptr,
    scratch_ptr,
    in_weight_ptr,
    in_bias_ptr,
    out_weight_ptr,
    out_bias_ptr,
    up_weight_ptr,
    up_bias_ptr,
    down_weight_ptr,
    down_bias_ptr,
    norm1_weight_ptr,
    norm1_bias_ptr,
    norm2_weight_ptr,
    norm2_bias_ptr,
    scale,
    eps1,
    eps2,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PADDED: tl.constexpr,
    PADDED_HIDDEN: tl.constexpr,
    TILE: tl.constexpr,
):
    """One encoder layer of one sample, in place of its tokens."""
    sample = tl.program_id(0)
    x_ptr = tokens_ptr + sample * 2 * WIDTH
    wide_ptr = scratch_ptr + sample * (8 * WIDTH + 2 * HIDDEN)
    narrow_ptr = wide_ptr + 6 * WIDTH
    hidden_ptr = narrow_ptr + 2 * WIDTH
    tile: tl.constexpr = TILE // PADDED
    tile_hidden: tl.constexpr = TILE // PADDED_HIDDEN
    map_tokens(x_ptr, in_weight_ptr, in_bias_ptr, wide_ptr, 3 * WIDTH, WIDTH, PADDED, tile, False)
    attend(wide_ptr, narrow_ptr, scale, WIDTH, HEADS, SIZE)
    map_tokens(narrow_ptr, out_weight_ptr, out_bias_ptr, wide_ptr, WIDTH, WIDTH, PADDED, tile, False)
    add_norm(x_ptr, wide_ptr, norm1_weight_ptr, norm1_bias_ptr, eps1, WIDTH, PADDED)
    map_tokens(x_ptr, up_weight_ptr, up_bias_ptr, hidden_ptr, HIDDEN, WIDTH, PADDED, tile, True)
    map_tokens(
        hidden_ptr, down_weight_ptr, down_bias_ptr, wide_ptr, WIDTH, HIDDEN, PADDED_HIDDEN, tile_hidden, False
    )
    add_norm(x_ptr, wide_ptr, norm2_weight_ptr, norm2_bias_ptr, eps2, WIDTH, PADDED)


@triton.jit
def logits_kernel(
    tokens_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    N,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Some logits of one sample, from its class token."""
    sample = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, PADDED)
    x = tl.load(tokens_ptr + sample * 2 * WIDTH + depth, mask=depth < WIDTH, other=0.0)
    mask = (rows < N)[:, None] & (depth < WIDTH)[None, :]
    w = tl.load(w_ptr + rows[:, None] * WIDTH + depth[None, :], mask=mask, other=0.0)
    y = tl.sum(w * x[None, :], axis=1) + tl.load(bias_ptr + rows, mask=rows < N, other=0.0)
    tl.store(out_ptr + sample * N + rows, y, mask=rows < N)


def embed(x: torch.Tensor, layer: nn.Linear, class_token: torch.Tensor) -> torch.Tensor:
    """Class token and image token of every image, of shape (batch, 2, width)."""
    (batch, k), width = x.shape, layer.weight.shape[0]
    tokens = torch.empty((batch, 2, width), device=x.device, dtype=x.dtype)
    embed_kernel[(width, triton.cdiv(batch, 16))](
        x,
        layer.weight,
        layer.bias,
        class_token,
        tokens,
        batch,
        k,
        WIDTH=width,
        ROWS=16,
        BLOCK=512,
        num_warps=8,
    )
    return tokens


def encode_(tokens: torch.Tensor, scratch: torch.Tensor, layer: nn.TransformerEncoderLayer) -> None:
    """Apply one encoder layer in place of the tokens."""
    attention, hidden = layer.self_attn, layer.linear1.out_features
    batch, _, width = tokens.shape
    size = width // attention.num_heads
    layer_kernel[(batch,)](
        tokens,
        scratch,
        attention.in_proj_weight,
        attention.in_proj_bias,
        attention.out_proj.weight,
        attention.out_proj.bias,
        layer.linear1.weight,
        layer.linear1.bias,
        layer.linear2.weight,
        layer.linear2.bias,
        layer.norm1.weight,
        layer.norm1.bias,
        layer.norm2.weight,
        layer.norm2.bias,
        size**-0.5,
        layer.norm1.eps,
        layer.norm2.eps,
        WIDTH=width,
        HIDDEN=hidden,
        HEADS=attention.num_heads,
        SIZE=triton.next_power_of_2(size),
        PADDED=triton.next_power_of_2(width),
        PADDED_HIDDEN=triton.next_power_of_2(hidden),
        TILE=16384,
        num_warps=16,
    )


def classify(tokens: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    """Logits of every sample from its class token."""
    (batch, _, width), n = tokens.shape, layer.weight.shape[0]
    out = torch.empty((batch, n), device=tokens.device, dtype=tokens.dtype)
    logits_kernel[(triton.cdiv(n, 64), batch)](
        tokens,
        layer.weight,
        layer.bias,
        out,
        n,
        WIDTH=width,
        PADDED=triton.next_power_of_2(width),
        BLOCK=64,
        num_warps=8,
    )
    return out


class Network(nn.Module):
    """A patch convolution, one image token and one class token, and a stack of encoder layers."""

    def __init__(
        self,
        num_classes,
        embed_dim=512,
        num_heads=8,
        num_layers=6,
        mlp_ratio=4.0,
        patch_size=4,
        in_channels=3,
        image_size=32,
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
        patches = (image_size // patch_size) ** 2
        self.linear_proj = nn.Linear(embed_dim * patches, embed_dim)
        self.transformer_layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                d_model=embed_dim,
                nhead=num_heads,
                dim_feedforward=int(embed_dim * mlp_ratio),
                dropout=0.0,
                batch_first=True,
            )
            for _ in range(num_layers)
        )
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.fc_out = nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        x = self.conv1(x).flatten(start_dim=1).contiguous()
        tokens = embed(x, self.linear_proj, self.cls_token)
        batch, _, width = tokens.shape
        hidden = self.transformer_layers[0].linear1.out_features
        scratch = torch.empty((batch, 8 * width + 2 * hidden), device=x.device, dtype=x.dtype)
        for layer in self.transformer_layers:
            encode_(tokens, scratch, layer)
        return classify(tokens, self.fc_out)


class ModelNew(Network):
    """The network, replayed as a CUDA graph: of a copy of the input, and giving a copy of the output."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.tensors = []
        self.recorded = None

    def record(self, x):
        """Record the network's work on a copy of x; running statistics are afterwards as they were."""
        self.input = x.clone()
        self.tensors = [*self.parameters(), *self.buffers()]
        before = [(buffer, buffer.clone()) for buffer in self.buffers()]
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
            for buffer, value in before:
                buffer.copy_(value)
        self.recorded = self.places(x)

    def places(self, x):
        """What a record holds for: a shape, a tile, and where the parameters and buffers lie."""
        return x.shape, x.dtype, TILE, [tensor.data_ptr() for tensor in self.tensors]

    def forward(self, x):
        if not x.is_cuda:
            return super().forward(x)
        if self.recorded != self.places(x):
            self.record(x)
        self.input.copy_(x)
        self.graph.replay()
        return self.output.clone()
