"""Causal multi-head self-attention as in minGPT: one linear layer maps x of shape (batch_size, seq_len,
n_embd) to queries, keys and values of n_head heads, scores scaled by 1 / sqrt(head width) are masked to the
past and present, softmax weights (dropout of probability 0) average the values, and the joined heads pass
through a linear layer to the shape of x, float32. The mask is a buffer of ones and zeros for max_seqlen
positions.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
max_seqlen = 1024
seq_len = 512
n_embd = 768
n_head = 8
attn_pdrop = 0.0
resid_pdrop = 0.0


class Model(nn.Module):
    """Causal softmax attention with joint query, key and value projection."""

    def __init__(self, n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(attn_pdrop)
        self.resid_dropout = nn.Dropout(resid_pdrop)
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
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        y = (weights @ v).transpose(1, 2).contiguous().view(batch, length, width)
        return self.resid_dropout(self.c_proj(y))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, seq_len, n_embd)]


def get_init_inputs() -> list[int | float]:
    return [n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen]
