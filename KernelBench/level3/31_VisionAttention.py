"""Self-attention over the pixels of an image: x of shape (batch_size, num_channels, image_height,
image_width) is read as a sequence of image_height * image_width tokens of embed_dim = num_channels values,
multi-head attention with num_heads heads maps it to itself (forming the head-averaged attention weights as
well, PyTorch's default), the input is added, layer norm applied, and the result is a view in the shape of x
(not contiguous), float32.
"""

import torch
import torch.nn as nn

embed_dim = 128
num_heads = 4
batch_size = 2
num_channels = 128
image_height = 128
image_width = 128


class Model(nn.Module):
    """Multi-head self-attention over pixels with a residual connection and layer norm."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x):
        batch, channels, height, width = x.shape
        tokens = x.view(batch, channels, height * width).permute(2, 0, 1)
        attended, _ = self.attn(tokens, tokens, tokens)
        tokens = self.norm(attended + tokens)
        return tokens.permute(1, 2, 0).view(batch, channels, height, width)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, num_channels, image_height, image_width)]


def get_init_inputs() -> list[int]:
    return [embed_dim, num_heads]
