"""A vision transformer whose attention runs over the batch axis: img of shape (2, channels, image_size,
image_size) is cut into square patches of patch_size, reshaped to (2, patches, channels * patch_size^2)
without moving the channels (so a row mixes pixels of several patches) and mapped linearly to dim; a class
token is prepended, position embeddings are added, and depth post-norm encoder layers (heads attention heads,
a ReLU feed-forward of mlp_dim) follow, fed with the batch as the sequence; the class token passes through two
linear layers with GELU between them to (2, num_classes) logits, float32, all dropout with probability 0. All
encoder layers start from identical weights, and as class tokens only meet class tokens the logits do not
depend on img at all.
"""

import torch
import torch.nn as nn

image_size = 224
patch_size = 16
num_classes = 10
dim = 512
depth = 6
heads = 8
mlp_dim = 2048
channels = 3
dropout = 0.0
emb_dropout = 0.0


class Model(nn.Module):
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
        patches = (image_size // patch_size) ** 2
        self.patch_size = patch_size
        self.pos_embedding = nn.Parameter(torch.randn(1, patches + 1, dim))
        self.patch_to_embedding = nn.Linear(channels * patch_size**2, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.dropout = nn.Dropout(emb_dropout)
        layer = nn.TransformerEncoderLayer(
            d_model=dim, nhead=heads, dim_feedforward=mlp_dim, dropout=dropout, batch_first=False
        )
        self.transformer = nn.TransformerEncoder(layer, num_layers=depth, enable_nested_tensor=False)
        self.to_cls_token = nn.Identity()
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
        x = self.patch_to_embedding(patches.reshape(batch, -1, size * size * channels))
        x = torch.cat((self.cls_token.expand(batch, -1, -1), x), dim=1)
        x += self.pos_embedding
        x = self.transformer(self.dropout(x))
        return self.mlp_head(self.to_cls_token(x[:, 0]))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(2, channels, image_size, image_size)]


def get_init_inputs() -> list[int | float]:
    return [image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, channels, dropout, emb_dropout]
