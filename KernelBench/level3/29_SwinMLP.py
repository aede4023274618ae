"""Swin-MLP, tiny size: patches of 4x4 pixels are embedded by a strided convolution and layer norm; four
stages of blocks follow, each block adding to the tokens (after layer norm) a mixing of the 49 positions of
every 7x7 window by one grouped 1x1 convolution per head, with windows displaced by zero padding in every
second block, and then a GELU feed-forward after layer norm; between stages 2x2 neighbouring tokens are
concatenated, normalised and halved in width; a last layer norm, the mean over tokens and a linear layer give
the logits; x has shape (batch_size, 3, image_size, image_size), the logits have shape (batch_size, 1000),
float32. drop_path_rate, use_checkpoint and further keyword arguments have no influence.
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


class SwinMLPBlock(nn.Module):
    """Mix positions within (possibly displaced) windows head by head, then channels."""

    def __init__(
        self, dim, input_resolution, num_heads, window_size, shift_size, mlp_ratio, drop, norm_layer
    ):
        super().__init__()
        self.input_resolution = input_resolution
        self.num_heads = num_heads
        if min(input_resolution) <= window_size:
            shift_size = 0
            window_size = min(input_resolution)
        self.window_size = window_size
        self.shift_size = shift_size
        # Zero rows and columns added before and after the token map in a displaced block.
        self.padding = (window_size - shift_size, shift_size) if shift_size else (0, 0)
        self.norm1 = norm_layer(dim)
        positions = num_heads * window_size**2
        self.spatial_mlp = nn.Conv1d(positions, positions, kernel_size=1, groups=num_heads)
        self.drop_path = nn.Identity()
        self.norm2 = norm_layer(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop)

    def mix_positions(self, windows):
        """Apply the grouped convolution to windows of shape (windows, positions, channels)."""
        _, positions, channels = windows.shape
        head_channels = channels // self.num_heads
        heads = windows.view(-1, positions, self.num_heads, head_channels).transpose(1, 2)
        heads = heads.reshape(-1, self.num_heads * positions, head_channels)
        heads = self.spatial_mlp(heads)
        heads = heads.view(-1, self.num_heads, positions, head_channels).transpose(1, 2)
        return heads.reshape(-1, positions, channels)

    def forward(self, x):
        height, width = self.input_resolution
        batch, tokens, channels = x.shape
        shortcut = x
        x = self.norm1(x).view(batch, height, width, channels)
        before, after = self.padding
        if self.shift_size > 0:
            x = F.pad(x, [0, 0, before, after, before, after], "constant", 0)
        padded_height, padded_width = x.shape[1:3]
        windows = window_partition(x, self.window_size).view(-1, self.window_size**2, channels)
        windows = self.mix_positions(windows)
        windows = windows.reshape(-1, self.window_size, self.window_size, channels)
        x = window_reverse(windows, self.window_size, padded_height, padded_width)
        if self.shift_size > 0:
            x = x[:, before:-after, before:-after, :].contiguous()
        x = shortcut + self.drop_path(x.view(batch, tokens, channels))
        return x + self.drop_path(self.mlp(self.norm2(x)))


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
        x = x.view(batch, height, width, channels)
        corners = [
            x[:, 0::2, 0::2, :],
            x[:, 1::2, 0::2, :],
            x[:, 0::2, 1::2, :],
            x[:, 1::2, 1::2, :],
        ]
        x = torch.cat(corners, -1).view(batch, -1, 4 * channels)
        return self.reduction(self.norm(x))


class BasicLayer(nn.Module):
    """One stage: blocks with alternating displacement and, except in the last stage, a merging."""

    def __init__(
        self, dim, input_resolution, depth, num_heads, window_size, mlp_ratio, drop, norm_layer, merge
    ):
        super().__init__()
        self.blocks = nn.ModuleList(
            SwinMLPBlock(
                dim,
                input_resolution,
                num_heads,
                window_size,
                shift_size=0 if index % 2 == 0 else window_size // 2,
                mlp_ratio=mlp_ratio,
                drop=drop,
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
        x = self.proj(x).flatten(2).transpose(1, 2)
        return x if self.norm is None else self.norm(x)


class Model(nn.Module):
    """The Swin-MLP classifier."""

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
        drop_rate=0.0,
        drop_path_rate=0.1,
        norm_layer=nn.LayerNorm,
        patch_norm=True,
        use_checkpoint=False,
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
                num_heads=num_heads[index],
                window_size=window_size,
                mlp_ratio=mlp_ratio,
                drop=drop_rate,
                norm_layer=norm_layer,
                merge=index < self.num_layers - 1,
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
