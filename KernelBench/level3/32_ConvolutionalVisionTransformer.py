"""A transformer over two tokens: x of shape (batch_size, in_channels, image_size, image_size) is convolved
with stride and kernel patch_size to embed_dim maps, all of which are flattened and mapped linearly to one
token of embed_dim values; a class token (initially zero) is prepended, num_layers post-norm encoder layers
(num_heads heads, ReLU feed-forward, no dropout) follow, and the class token passes through a linear layer to
the logits of shape (batch_size, num_classes), float32.
"""

import torch
import torch.nn as nn

batch_size = 10
image_size = 32
embed_dim = 128
in_channels = 3
num_heads = 4
num_classes = 1000


class Model(nn.Module):
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
        self.patch_size = patch_size
        self.image_size = image_size
        self.embed_dim = embed_dim
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
        x = self.conv1(x).flatten(start_dim=1)
        x = self.linear_proj(x)
        cls_tokens = self.cls_token.expand(x.size(0), -1, -1)
        x = torch.cat((cls_tokens, x.unsqueeze(1)), dim=1)
        for layer in self.transformer_layers:
            x = layer(x)
        return self.fc_out(x[:, 0])


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs() -> list[int]:
    return [num_classes, embed_dim, num_heads]
