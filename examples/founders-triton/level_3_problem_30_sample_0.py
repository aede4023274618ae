"""Swin Transformer V2: eight launches a block, all replayed as one CUDA graph.

The attention kernel gathers its (possibly displaced) window from the projections as they lie, adds their biases,
normalises queries and keys, and writes the mixed values back to their tokens; no score is ever written. The position
bias is one kernel over all offsets. Layer norms add the residual; bias and GELU happen on the accumulators of the
linear layers. Products take three TF32 passes on the tensor cores, which keeps the accuracy of fp32. The strided
convolution in front stays with cuDNN.
"""

import torch
import triton
import triton.language as tl
from torch import nn

PROGRAMS = 132
TILE = {"BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3}
"""A tile of the linear layers: its outputs and depth, and its warps and stages with 128 rows; small ones have 64 rows
and half the warps."""


@triton.jit
def linear_kernel(
    a_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    M,
    N,
    K: tl.constexpr,
    BIAS: tl.constexpr,
    GELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of a W^T, with bias and GELU if asked for."""
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
    if BIAS:
        x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if GELU:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    rows,
    eps,
    WIDTH: tl.constexpr,
    RESIDUAL: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Layer norm of some rows, plus a residual if asked for."""
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
    if RESIDUAL:
        x += tl.load(residual_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def offsets_kernel(
    offsets_ptr,
    hidden_weight_ptr,
    hidden_bias_ptr,
    weight_ptr,
    table_ptr,
    HEADS: tl.constexpr,
    HIDDEN: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Position bias of all heads for one offset between two positions."""
    offset = tl.program_id(0)
    heads = tl.arange(0, PADDED)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < HIDDEN
    hidden = tl.load(hidden_bias_ptr + lanes, mask=mask, other=0.0)
    for axis in tl.static_range(2):
        weight = tl.load(hidden_weight_ptr + lanes * 2 + axis, mask=mask, other=0.0)
        hidden += weight * tl.load(offsets_ptr + offset * 2 + axis)
    hidden = tl.where(hidden < 0.0, 0.0, hidden)
    weight_mask = (heads < HEADS)[:, None] & mask[None, :]
    weight = tl.load(weight_ptr + heads[:, None] * HIDDEN + lanes[None, :], mask=weight_mask, other=0.0)
    bias = 16.0 / (1.0 + tl.exp(-tl.sum(weight * hidden[None, :], axis=1)))
    tl.store(table_ptr + heads * tl.num_programs(0) + offset, bias, mask=heads < HEADS)


@triton.jit
def attention_kernel(
    qkv_ptr,
    q_bias_ptr,
    v_bias_ptr,
    logit_scale_ptr,
    table_ptr,
    mask_ptr,
    out_ptr,
    across,
    down,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEADS: tl.constexpr,
    SIDE: tl.constexpr,
    SHIFT: tl.constexpr,
    BIAS: tl.constexpr,
    POSITIONS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Cosine attention within one window for one head."""
    window, head = tl.program_id(0), tl.program_id(1)
    count: tl.constexpr = SIDE * SIDE
    head_channels: tl.constexpr = CHANNELS // HEADS
    position = tl.arange(0, POSITIONS)
    part = tl.arange(0, SIZE)
    inside = part < head_channels
    row = (window // across % down * SIDE + position // SIDE + SHIFT) % HEIGHT
    column = (window % across * SIDE + position % SIDE + SHIFT) % WIDTH
    token = ((window // (across * down)).to(tl.int64) * HEIGHT + row) * WIDTH + column
    channel = head * head_channels + part
    offsets = token[:, None] * (3 * CHANNELS) + channel[None, :]
    mask = (position < count)[:, None] & inside[None, :]
    q = tl.load(qkv_ptr + offsets, mask=mask, other=0.0)
    k = tl.load(qkv_ptr + CHANNELS + offsets, mask=mask, other=0.0)
    v = tl.load(qkv_ptr + 2 * CHANNELS + offsets, mask=mask, other=0.0)
    if BIAS:
        q += tl.load(q_bias_ptr + channel, mask=inside, other=0.0)[None, :]
        v += tl.load(v_bias_ptr + channel, mask=inside, other=0.0)[None, :]
    q = q / tl.maximum(tl.sqrt(tl.sum(q * q, axis=1)), 1e-12)[:, None]
    k = k / tl.maximum(tl.sqrt(tl.sum(k * k, axis=1)), 1e-12)[:, None]
    scale = tl.exp(tl.minimum(tl.load(logit_scale_ptr + head), 4.605170185988092))
    scores = tl.dot(q, tl.trans(k), input_precision="tf32x3") * scale
    span: tl.constexpr = 2 * SIDE - 1
    rows_apart = position[:, None] // SIDE - position[None, :] // SIDE + SIDE - 1
    columns_apart = position[:, None] % SIDE - position[None, :] % SIDE + SIDE - 1
    pairs = (position < count)[:, None] & (position < count)[None, :]
    slots = head * span * span + rows_apart * span + columns_apart
    scores += tl.load(table_ptr + slots, mask=pairs, other=0.0)
    if SHIFT > 0:
        slots = (window % (across * down) * count + position[:, None]) * count + position[None, :]
        scores += tl.load(mask_ptr + slots, mask=pairs, other=0.0)
    scores = tl.where((position < count)[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    out = tl.dot(weights, v, input_precision="tf32x3")
    tl.store(out_ptr + token[:, None] * CHANNELS + channel[None, :], out, mask=mask)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    gelu: bool = False,
) -> torch.Tensor:
    """x W^T over the last dimension, with bias or GELU if asked for."""
    n, k = weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    block_m = 128 if triton.cdiv(m, 128) * triton.cdiv(n, 64) >= PROGRAMS else 64
    large = TILE["BLOCK_N"]
    block_n = large if triton.cdiv(m, 128) * triton.cdiv(n, large) >= PROGRAMS else 64
    linear_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        x,
        weight,
        x if bias is None else bias,
        out,
        m,
        n,
        K=k,
        BIAS=bias is not None,
        GELU=gelu,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=TILE["BLOCK_K"],
        GROUP=8,
        num_warps=TILE["num_warps"] if block_m == 128 else TILE["num_warps"] // 2,
        num_stages=TILE["num_stages"],
    )
    return out


def layer_norm(x: torch.Tensor, norm: nn.LayerNorm, residual: torch.Tensor | None = None) -> torch.Tensor:
    """Layer norm over the last dimension, plus a residual if given."""
    width = x.shape[-1]
    rows = x.numel() // width
    block = triton.next_power_of_2(width)
    height = max(1, 2048 // block)
    out = torch.empty_like(x)
    norm_kernel[(triton.cdiv(rows, height),)](
        x,
        x if residual is None else residual,
        norm.weight,
        norm.bias,
        out,
        rows,
        norm.eps,
        WIDTH=width,
        RESIDUAL=residual is not None,
        ROWS=height,
        BLOCK=block,
        num_warps=4,
    )
    return out


def position_bias(attn: "WindowAttention") -> torch.Tensor:
    """Bias of every head for every offset between two positions of a window, shape (heads, offsets)."""
    first, last = attn.cpb_mlp[0], attn.cpb_mlp[2]
    offsets = attn.relative_coords_table.numel() // 2
    table = torch.empty((attn.num_heads, offsets), device=last.weight.device, dtype=torch.float32)
    offsets_kernel[(offsets,)](
        attn.relative_coords_table,
        first.weight,
        first.bias,
        last.weight,
        table,
        HEADS=attn.num_heads,
        HIDDEN=first.out_features,
        PADDED=triton.next_power_of_2(attn.num_heads),
        BLOCK=triton.next_power_of_2(first.out_features),
        num_warps=4,
    )
    return table


def attend(qkv: torch.Tensor, block: "SwinTransformerBlock") -> torch.Tensor:
    """Attention within windows over projections (batch, tokens, 3 * channels); returns (batch, tokens, channels)."""
    attn, (height, width), side = block.attn, block.input_resolution, block.window_size
    batch, tokens, channels = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    down, across = height // side, width // side
    out = torch.empty((batch, tokens, channels), device=qkv.device, dtype=qkv.dtype)
    attention_kernel[(batch * down * across, attn.num_heads)](
        qkv,
        qkv if attn.q_bias is None else attn.q_bias,
        qkv if attn.v_bias is None else attn.v_bias,
        attn.logit_scale,
        position_bias(attn),
        qkv if block.attn_mask is None else block.attn_mask,
        out,
        across,
        down,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=channels,
        HEADS=attn.num_heads,
        SIDE=side,
        SHIFT=block.shift_size,
        BIAS=attn.q_bias is not None,
        POSITIONS=max(16, triton.next_power_of_2(side**2)),
        SIZE=max(16, triton.next_power_of_2(channels // attn.num_heads)),
        num_warps=4,
    )
    return out


class Mlp(nn.Module):
    """The parameters of two linear layers with GELU between them."""

    def __init__(self, features, hidden_features):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden_features)
        self.fc2 = nn.Linear(hidden_features, features)


class WindowAttention(nn.Module):
    """The parameters of the attention within windows; its arithmetic is in the kernels."""

    def __init__(self, dim, side, num_heads, qkv_bias, pretrained_window_size):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512, bias=True), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False)
        )
        apart = torch.arange(1 - side, side, dtype=torch.float32)
        grid = torch.stack(torch.meshgrid(apart, apart, indexing="ij"), dim=-1)[None]
        grid = grid / ((pretrained_window_size or side) - 1) * 8
        spaced = torch.sign(grid) * torch.log2(grid.abs() + 1.0) / torch.log2(torch.tensor(8.0))
        self.register_buffer("relative_coords_table", spaced)
        index = torch.arange(side)
        place = torch.cartesian_prod(index, index)
        between = place[:, None, :] - place[None, :, :] + side - 1
        self.register_buffer("relative_position_index", between[..., 0] * (2 * side - 1) + between[..., 1])
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.v_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.proj = nn.Linear(dim, dim)


def displacement_mask(height: int, width: int, side: int, shift: int) -> torch.Tensor:
    """-100 between positions of a displaced window that lie apart in the image, else 0; (windows, count, count)."""

    def region(length):
        place = torch.arange(length)
        return (place >= length - side).long() + (place >= length - shift).long()

    regions = 3 * region(height)[:, None] + region(width)[None, :]
    windows = (
        regions.view(height // side, side, width // side, side).permute(0, 2, 1, 3).reshape(-1, side * side)
    )
    return torch.where(windows[:, None, :] == windows[:, :, None], 0.0, -100.0)


class SwinTransformerBlock(nn.Module):
    """Window attention and feed-forward, each normalised after it and added to its input."""

    def __init__(self, dim, input_resolution, window_size, shift_size, norm_layer, **arguments):
        super().__init__()
        self.input_resolution = input_resolution
        if min(input_resolution) <= window_size:
            shift_size = 0
            window_size = min(input_resolution)
        self.window_size = window_size
        self.shift_size = shift_size
        self.norm1 = norm_layer(dim)
        self.attn = WindowAttention(
            dim,
            window_size,
            arguments["num_heads"],
            arguments["qkv_bias"],
            arguments["pretrained_window_size"],
        )
        self.norm2 = norm_layer(dim)
        self.mlp = Mlp(dim, int(dim * arguments["mlp_ratio"]))
        mask = displacement_mask(*input_resolution, window_size, shift_size) if shift_size > 0 else None
        self.register_buffer("attn_mask", mask)

    def forward(self, x):
        attended = attend(linear(x, self.attn.qkv.weight, None), self)
        x = layer_norm(linear(attended, self.attn.proj.weight, self.attn.proj.bias), self.norm1, x)
        hidden = linear(x, self.mlp.fc1.weight, self.mlp.fc1.bias, gelu=True)
        return layer_norm(linear(hidden, self.mlp.fc2.weight, self.mlp.fc2.bias), self.norm2, x)


class PatchMerging(nn.Module):
    """Concatenate 2x2 neighbouring tokens, halve the width, and normalise."""

    def __init__(self, input_resolution, dim, norm_layer):
        super().__init__()
        self.input_resolution = input_resolution
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x):
        height, width = self.input_resolution
        batch, _, channels = x.shape
        # Column pairs outside row pairs: the order of the four corners in the concatenation.
        corners = x.view(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 4, 2, 5)
        merged = corners.reshape(batch, -1, 4 * channels)
        return layer_norm(linear(merged, self.reduction.weight, None), self.norm)


class BasicLayer(nn.Module):
    """One stage: blocks with alternating displacement and, except in the last stage, a merging."""

    def __init__(self, dim, input_resolution, depth, window_size, norm_layer, merge, **arguments):
        super().__init__()
        self.blocks = nn.ModuleList(
            SwinTransformerBlock(
                dim,
                input_resolution,
                window_size=window_size,
                shift_size=0 if index % 2 == 0 else window_size // 2,
                norm_layer=norm_layer,
                **arguments,
            )
            for index in range(depth)
        )
        self.downsample = PatchMerging(input_resolution, dim, norm_layer) if merge else None

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x if self.downsample is None else self.downsample(x)


class PatchEmbed(nn.Module):
    """Embed non-overlapping square patches as a sequence of tokens."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, norm_layer):
        super().__init__()
        self.patches_resolution = [img_size // patch_size, img_size // patch_size]
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.norm = None if norm_layer is None else norm_layer(embed_dim)

    def forward(self, x):
        x = self.proj(x).flatten(2).transpose(1, 2).contiguous()
        return x if self.norm is None else layer_norm(x, self.norm)


class Network(nn.Module):
    """The Swin Transformer V2 classifier."""

    def __init__(
        self,
        img_size=224,
        patch_size=4,
        in_chans=3,
        num_classes=1000,
        embed_dim=96,
        depths=(2, 2, 6, 2),
        num_heads=(3, 6, 12, 24),
        window_size=7,
        mlp_ratio=4.0,
        qkv_bias=True,
        drop_rate=0.0,
        attn_drop_rate=0.0,
        drop_path_rate=0.1,
        norm_layer=nn.LayerNorm,
        patch_norm=True,
        use_checkpoint=False,
        pretrained_window_sizes=(0, 0, 0, 0),
        **kwargs,
    ):
        super().__init__()
        if drop_rate or attn_drop_rate:
            raise ValueError("this kernel is written for dropout probabilities of zero")
        num_layers = len(depths)
        num_features = embed_dim * 2 ** (num_layers - 1)
        self.patch_embed = PatchEmbed(
            img_size, patch_size, in_chans, embed_dim, norm_layer if patch_norm else None
        )
        resolution = self.patch_embed.patches_resolution
        self.layers = nn.ModuleList(
            BasicLayer(
                dim=embed_dim * 2**index,
                input_resolution=tuple(size // 2**index for size in resolution),
                depth=depths[index],
                window_size=window_size,
                norm_layer=norm_layer,
                merge=index < num_layers - 1,
                num_heads=num_heads[index],
                mlp_ratio=mlp_ratio,
                qkv_bias=qkv_bias,
                pretrained_window_size=pretrained_window_sizes[index],
            )
            for index in range(num_layers)
        )
        self.norm = norm_layer(num_features)
        self.head = nn.Linear(num_features, num_classes) if num_classes > 0 else nn.Identity()

    def forward(self, x):
        x = self.patch_embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(layer_norm(x, self.norm).mean(dim=1))


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

    def forward(self, x):
        if not x.is_cuda:
            return super().forward(x)
        if self.recorded != self.places(x):
            self.record(x)
        self.input.copy_(x)
        self.graph.replay()
        return self.output.clone()
