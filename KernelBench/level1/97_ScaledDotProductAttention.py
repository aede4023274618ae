"""Scaled dot-product attention, softmax(Q K^T / sqrt(embedding_dimension)) V with the softmax over the keys,
for every sample and head on its own. Q, K, V and the result are float32 of shape (batch_size, num_heads,
sequence_length, embedding_dimension), where embedding_dimension is the size of one head. There is no mask and
no dropout.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
num_heads = 32
sequence_length = 512
embedding_dimension = 1024


class Model(nn.Module):
    """Scaled dot-product attention."""

    def forward(self, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(Q, K, V)


def get_inputs() -> list[torch.Tensor]:
    Q = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    K = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    V = torch.rand(batch_size, num_heads, sequence_length, embedding_dimension)
    return [Q, K, V]


def get_init_inputs() -> list[object]:
    return []
