"""Swin-MLP: five launches a block.

Layer norm, mixing of positions, layer norm and two linear layers are one kernel each. The mixing kernel gathers its
window from the tokens as they lie, with zeros where the displaced window leaves the image, and adds the block's input;
bias, GELU and the second sum happen on the accumulators. The strided convolution in front stays with cuDNN. All of it is
launched as one CUDA graph, since the launches take longer than the work.

Inputs, weights and what is multiplied are bf16; sums, moments and what happens on the accumulators are fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"BLOCK_K": 64, "num_stages": 3}
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
    BIAS: tl.constexpr,
    GELU: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of a W^T, with bias, GELU and a residual sum if asked for."""
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
        x = tl.dot(a, tl.trans(w), x)
        a_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    if BIAS:
        x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
    if GELU:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    offsets = rows.to(tl.int64)[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    if RESIDUAL:
        x += tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
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
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(inside[None, :], x - (tl.sum(x, axis=1) / WIDTH)[:, None], 0.0)
    x = x * (1.0 / tl.sqrt(tl.sum(x * x, axis=1) / WIDTH + eps))[:, None]
    x = x * tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    x += tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if RESIDUAL:
        x += tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x, mask=mask)


@triton.jit
def mix_kernel(
    y_ptr,
    x_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    across,
    down,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNELS: tl.constexpr,
    HEADS: tl.constexpr,
    SIDE: tl.constexpr,
    BEFORE: tl.constexpr,
    POSITIONS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Mix the positions of one window for one head, and add the block's input."""
    window, head = tl.program_id(0), tl.program_id(1)
    count: tl.constexpr = SIDE * SIDE
    head_channels: tl.constexpr = CHANNELS // HEADS
    position = tl.arange(0, POSITIONS)
    part = tl.arange(0, SIZE)
    row = window // across % down * SIDE + position // SIDE - BEFORE
    column = window % across * SIDE + position % SIDE - BEFORE
    inside = (position < count) & (row >= 0) & (row < HEIGHT) & (column >= 0) & (column < WIDTH)
    sample = (window // (across * down)).to(tl.int64)
    token = (sample * HEIGHT + row) * WIDTH + column
    offsets = token[:, None] * CHANNELS + head * head_channels + part[None, :]
    mask = inside[:, None] & (part < head_channels)[None, :]
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    slots = (head * count + position)[:, None] * count + position[None, :]
    w = tl.load(w_ptr + slots, mask=(position < count)[:, None] & (position < count)[None, :], other=0.0)
    bias = tl.load(bias_ptr + head * count + position, mask=position < count, other=0.0).to(tl.float32)
    out = tl.dot(w, y) + bias[:, None]
    out += tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, out, mask=mask)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    gelu: bool = False,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """x W^T over the last dimension, with bias, GELU or a residual sum if asked for."""
    n, k = weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    block_m = 128 if triton.cdiv(m, 128) * triton.cdiv(n, 64) >= PROGRAMS else 64
    block_n = 128 if triton.cdiv(m, 128) * triton.cdiv(n, 128) >= PROGRAMS else 64
    linear_kernel[(triton.cdiv(m, block_m) * triton.cdiv(n, block_n),)](
        x,
        weight,
        x if bias is None else bias,
        x if residual is None else residual,
        out,
        m,
        n,
        K=k,
        BIAS=bias is not None,
        GELU=gelu,
        RESIDUAL=residual is not None,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=TILE["BLOCK_K"],
        GROUP=8,
        num_warps=8 if block_m == 128 else 4,
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


def mix(y: torch.Tensor, x: torch.Tensor, block: "SwinMLPBlock") -> torch.Tensor:
    """x plus the positions of y mixed within windows, head by head; both of shape (batch, tokens, channels)."""
    height, width = block.input_resolution
    side, before = block.window_size, block.padding[0]
    padded_height, padded_width = height + sum(block.padding), width + sum(block.padding)
    down, across = padded_height // side, padded_width // side
    out = torch.empty_like(x)
    mix_kernel[(len(x) * down * across, block.num_heads)](
        y,
        x,
        block.spatial_mlp.weight,
        block.spatial_mlp.bias,
        out,
        across,
        down,
        HEIGHT=height,
        WIDTH=width,
        CHANNELS=x.shape[-1],
        HEADS=block.num_heads,
        SIDE=side,
        BEFORE=before,
        POSITIONS=max(16, triton.next_power_of_2(side**2)),
        SIZE=max(16, triton.next_power_of_2(x.shape[-1] // block.num_heads)),
        num_warps=4,
    )
    return out


class Mlp(nn.Module):
    """The parameters of two linear layers with GELU between them."""

    def __init__(self, features, hidden_features):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden_features)
        self.fc2 = nn.Linear(hidden_features, features)


class SwinMLPBlock(nn.Module):
    """Mix positions within (possibly displaced) windows head by head, then channels."""

    def __init__(self, dim, input_resolution, num_heads, window_size, shift_size, mlp_ratio, norm_layer):
        super().__init__()
        self.input_resolution = input_resolution
        self.num_heads = num_heads
        if min(input_resolution) <= window_size:
            shift_size = 0
            window_size = min(input_resolution)
        self.window_size = window_size
        self.padding = (window_size - shift_size, shift_size) if shift_size else (0, 0)
        self.norm1 = norm_layer(dim)
        positions = num_heads * window_size**2
        self.spatial_mlp = nn.Conv1d(positions, positions, kernel_size=1, groups=num_heads)
        self.norm2 = norm_layer(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, x):
        x = mix(layer_norm(x, self.norm1), x, self)
        hidden = linear(layer_norm(x, self.norm2), self.mlp.fc1.weight, self.mlp.fc1.bias, gelu=True)
        return linear(hidden, self.mlp.fc2.weight, self.mlp.fc2.bias, residual=x)


class PatchMerging(nn.Module):
    """Concatenate 2x2 neighbouring tokens, normalise, and halve the width."""

    def __init__(self, input_resolution, dim, norm_layer):
        super().__init__()
        self.input_resolution = input_resolution
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x):
        height, width = self.input_resolution
        batch, _, channels = x.shape
        # Column pairs outside row pairs: the order of the four corners in the concatenation.
        corners = x.view(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 4, 2, 5)
        merged = corners.reshape(batch, -1, 4 * channels)
        return linear(layer_norm(merged, self.norm), self.reduction.weight, None)


class BasicLayer(nn.Module):
    """One stage: blocks with alternating displacement and, except in the last stage, a merging."""

    def __init__(self, dim, input_resolution, depth, num_heads, window_size, mlp_ratio, norm_layer, merge):
        super().__init__()
        self.blocks = nn.ModuleList(
            SwinMLPBlock(
                dim,
                input_resolution,
                num_heads,
                window_size,
                shift_size=0 if index % 2 == 0 else window_size // 2,
                mlp_ratio=mlp_ratio,
                norm_layer=norm_layer,
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
    """The Swin-MLP classifier."""

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
        drop_rate=0.0,
        drop_path_rate=0.1,
        norm_layer=nn.LayerNorm,
        patch_norm=True,
        use_checkpoint=False,
        **kwargs,
    ):
        super().__init__()
        if drop_rate:
            raise ValueError("this kernel is written for a dropout probability of zero")
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
                num_heads=num_heads[index],
                window_size=window_size,
                mlp_ratio=mlp_ratio,
                norm_layer=norm_layer,
                merge=index < num_layers - 1,
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
