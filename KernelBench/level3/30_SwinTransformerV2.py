"""Swin Transformer V2, tiny size: patches of 4x4 pixels are embedded by a strided convolution and layer norm;
four stages of blocks follow, each adding the layer-normalised result of cosine attention within 7x7 windows
(learned temperature per head, position bias 16 * sigmoid(mlp(log-spaced offsets)), windows cyclically
displaced by 3 with masking in every second block) and then of a GELU feed-forward; between stages 2x2
neighbouring tokens are concatenated, halved in width and normalised; a last layer norm, the mean over tokens
and a linear layer give the logits; x has shape (batch_size, 3, image_size, image_size), the logits have shape
(batch_size, 1000), float32. drop_path_rate, use_checkpoint and further keyword arguments have no influence.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
image_size = 224


def window_partition(x, window_size):
    """Cut (batch, height, width, channels) into (windows, window_size, window_size, channels)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // window_size, window_size, width // window_size, window_size, channels)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, channels)


def window_reverse(windows, window_size, height, width):
    """Put the windows back together to (batch, height, width, channels)."""
    rows, columns = height // window_size, width // window_size
    batch = windows.shape[0] // (rows * columns)
    x = windows.view(batch, rows, columns, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(batch, height, width, -1)


class Mlp(nn.Module):
    """Two linear layers with GELU between them."""

    def __init__(self, features, hidden_features, drop=0.0):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden_features)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_features, features)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        x = self.drop(self.act(self.fc1(x)))
        return self.drop(self.fc2(x))


class WindowAttention(nn.Module):
    """Cosine multi-head attention within windows, with a continuous relative position bias."""

    def __init__(self, dim, window_size, num_heads, qkv_bias, attn_drop, proj_drop, pretrained_window_size):
        super().__init__()
        self.window_size = window_size
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512, bias=True),
            nn.ReLU(inplace=True),
            nn.Linear(512, num_heads, bias=False),
        )
        self.register_buffer("relative_coords_table", self._offsets(pretrained_window_size))
        self.register_buffer("relative_position_index", self._offset_index())
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.v_bias = nn.Parameter(torch.zeros(dim)) if qkv_bias else None
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        self.softmax = nn.Softmax(dim=-1)

    def _offsets(self, pretrained_window_size):
        """Log-spaced offsets of all relative positions, shape (1, 2w - 1, 2w - 1, 2)."""
        size = self.window_size
        steps = torch.arange(-(size - 1), size, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), dim=-1).unsqueeze(0)
        table = table / ((pretrained_window_size or size) - 1) * 8
        return torch.sign(table) * torch.log2(torch.abs(table) + 1.0) / torch.log2(torch.tensor(8.0))

    def _offset_index(self):
        """Index into the flattened offsets for every pair of positions, shape (w^2, w^2)."""
        size = self.window_size
        steps = torch.arange(size)
        positions = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
        offsets = positions[:, :, None] - positions[:, None, :] + size - 1
        return offsets[0] * (2 * size - 1) + offsets[1]

    def position_bias(self):
        """Bias per head and pair of positions, shape (heads, w^2, w^2)."""
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        positions = self.window_size**2
        bias = table[self.relative_position_index.view(-1)].view(positions, positions, -1)
        return 16 * torch.sigmoid(bias.permute(2, 0, 1).contiguous())

    def forward(self, x, mask=None):
        windows, positions, channels = x.shape
        qkv_bias = None
        if self.q_bias is not None:
            key_bias = torch.zeros_like(self.v_bias, requires_grad=False)
            qkv_bias = torch.cat((self.q_bias, key_bias, self.v_bias))
        qkv = F.linear(input=x, weight=self.qkv.weight, bias=qkv_bias)
        qkv = qkv.reshape(windows, positions, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        largest = torch.log(torch.tensor(100.0, device=x.device))
        scores = scores * torch.clamp(self.logit_scale, max=largest).exp()
        scores = scores + self.position_bias().unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            scores = scores.view(windows // count, count, self.num_heads, positions, positions)
            scores = scores + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, self.num_heads, positions, positions)
        weights = self.attn_drop(self.softmax(scores))
        x = (weights @ v).transpose(1, 2).reshape(windows, positions, channels)
        return self.proj_drop(self.proj(x))


class SwinTransformerBlock(nn.Module):
    """Window attention and feed-forward, each normalised after it and added to its input."""

    def __init__(
        self,
        dim,
        input_resolution,
        num_heads,
        window_size,
        shift_size,
        mlp_ratio,
        qkv_bias,
        drop,
        attn_drop,
        norm_layer,
        pretrained_window_size,
    ):
        super().__init__()
        self.input_resolution = input_resolution
        if min(input_resolution) <= window_size:
            shift_size = 0
            window_size = min(input_resolution)
        self.window_size = window_size
        self.shift_size = shift_size
        self.norm1 = norm_layer(dim)
        self.attn = WindowAttention(
            dim, window_size, num_heads, qkv_bias, attn_drop, drop, pretrained_window_size
        )
        self.drop_path = nn.Identity()
        self.norm2 = norm_layer(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)
        self.register_buffer("attn_mask", self._mask() if shift_size > 0 else None)

    def _mask(self):
        """-100 between positions that only the cyclic displacement made neighbours, else 0."""
        height, width = self.input_resolution
        parts = (
            slice(0, -self.window_size),
            slice(-self.window_size, -self.shift_size),
            slice(-self.shift_size, None),
        )
        regions = torch.zeros((1, height, width, 1))
        for row, rows in enumerate(parts):
            for column, columns in enumerate(parts):
                regions[:, rows, columns, :] = 3 * row + column
        windows = window_partition(regions, self.window_size).view(-1, self.window_size**2)
        difference = windows.unsqueeze(1) - windows.unsqueeze(2)
        return torch.zeros_like(difference).masked_fill(difference != 0, -100.0)

    def forward(self, x):
        height, width = self.input_resolution
        batch, tokens, channels = x.shape
        shortcut = x
        shift = self.shift_size
        x = x.view(batch, height, width, channels)
        if shift > 0:
            x = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2))
        windows = window_partition(x, self.window_size).view(-1, self.window_size**2, channels)
        windows = self.attn(windows, mask=self.attn_mask)
        windows = windows.view(-1, self.window_size, self.window_size, channels)
        x = window_reverse(windows, self.window_size, height, width)
        if shift > 0:
            x = torch.roll(x, shifts=(shift, shift), dims=(1, 2))
        x = shortcut + self.drop_path(self.norm1(x.view(batch, tokens, channels)))
        return x + self.drop_path(self.norm2(self.mlp(x)))


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
        x = x.view(batch, height, width, channels)
        corners = [
            x[:, 0::2, 0::2, :],
            x[:, 1::2, 0::2, :],
            x[:, 0::2, 1::2, :],
            x[:, 1::2, 1::2, :],
        ]
        x = torch.cat(corners, -1).view(batch, -1, 4 * channels)
        return self.norm(self.reduction(x))


class BasicLayer(nn.Module):
    """One stage: blocks with alternating displacement and, except in the last stage, a merging."""

    def __init__(self, dim, input_resolution, depth, window_size, norm_layer, merge, **block_arguments):
        super().__init__()
        self.blocks = nn.ModuleList(
            SwinTransformerBlock(
                dim,
                input_resolution,
                window_size=window_size,
                shift_size=0 if index % 2 == 0 else window_size // 2,
                norm_layer=norm_layer,
                **block_arguments,
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
        x = self.proj(x).flatten(2).transpose(1, 2)
        return x if self.norm is None else self.norm(x)


class Model(nn.Module):
    """The Swin Transformer V2 classifier."""

    def __init__(
        self,
        img_size=224,
        patch_size=4,
        in_chans=3,
        num_classes=1000,
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        mlp_ratio=4.0,
        qkv_bias=True,
        drop_rate=0.0,
        attn_drop_rate=0.0,
        drop_path_rate=0.1,
        norm_layer=nn.LayerNorm,
        patch_norm=True,
        use_checkpoint=False,
        pretrained_window_sizes=[0, 0, 0, 0],
        **kwargs,
    ):
        super().__init__()
        self.num_classes = num_classes
        self.num_layers = len(depths)
        self.embed_dim = embed_dim
        self.patch_norm = patch_norm
        self.num_features = embed_dim * 2 ** (self.num_layers - 1)
        self.mlp_ratio = mlp_ratio
        self.patch_embed = PatchEmbed(
            img_size, patch_size, in_chans, embed_dim, norm_layer if patch_norm else None
        )
        self.patches_resolution = self.patch_embed.patches_resolution
        self.pos_drop = nn.Dropout(p=drop_rate)
        self.layers = nn.ModuleList(
            BasicLayer(
                dim=embed_dim * 2**index,
                input_resolution=tuple(size // 2**index for size in self.patches_resolution),
                depth=depths[index],
                window_size=window_size,
                norm_layer=norm_layer,
                merge=index < self.num_layers - 1,
                num_heads=num_heads[index],
                mlp_ratio=mlp_ratio,
                qkv_bias=qkv_bias,
                drop=drop_rate,
                attn_drop=attn_drop_rate,
                pretrained_window_size=pretrained_window_sizes[index],
            )
            for index in range(self.num_layers)
        )
        self.norm = norm_layer(self.num_features)
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()

    def forward(self, x):
        x = self.pos_drop(self.patch_embed(x))
        for layer in self.layers:
            x = layer(x)
        x = self.avgpool(self.norm(x).transpose(1, 2))
        return self.head(torch.flatten(x, 1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 3, image_size, image_size)]


def get_init_inputs() -> list:
    return []
