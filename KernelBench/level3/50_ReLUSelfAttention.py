"""Causal multi-head attention with ReLU in place of softmax: one linear layer maps x of shape (batch_size,
max_seqlen, n_embd) to queries, keys and values of n_head heads, scores scaled by 1 / sqrt(head width) are set
to -inf for the future and then passed through ReLU, and the sums of values weighted by them are joined to the
shape of x, float32. The output projection c_proj is a parameter but is not applied, so it has no influence.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
max_seqlen = 1024
n_embd = 768
n_head = 12


class Model(nn.Module):
    """Causal attention with unnormalised ReLU weights and no output projection."""

    def __init__(self, n_embd, n_head, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        allowed = torch.tril(torch.ones(max_seqlen, max_seqlen))
        self.register_buffer("bias", allowed.view(1, 1, max_seqlen, max_seqlen))
        self.n_head = n_head
        self.n_embd = n_embd

    def forward(self, x):
        batch, length, width = x.shape
        heads = (batch, length, self.n_head, width // self.n_head)
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q = q.view(heads).transpose(1, 2)
        k = k.view(heads).transpose(1, 2)
        v = v.view(heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        y = F.relu(scores) @ v
        return y.transpose(1, 2).contiguous().view(batch, length, width)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, max_seqlen, n_embd)]


def get_init_inputs() -> list[int]:
    return [n_embd, n_head, max_seqlen]
