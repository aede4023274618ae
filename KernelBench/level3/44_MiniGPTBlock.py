"""One transformer block as in minGPT, normalising before each part: to x of shape (batch_size, seq_len,
n_embd) is added causal multi-head self-attention of its layer norm, and to the sum the feed-forward of its
layer norm, a linear layer to 4 * n_embd, GELU in the tanh approximation and a linear layer back; all dropout
with probability 0; the result has the shape of x, float32.
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


class NewGELU(nn.Module):
    """GELU in the tanh approximation, written out in elementary operations."""

    def forward(self, x):
        scale = math.sqrt(2.0 / math.pi)
        return 0.5 * x * (1.0 + torch.tanh(scale * (x + 0.044715 * torch.pow(x, 3.0))))


class CausalSelfAttention(nn.Module):
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


class Model(nn.Module):
    """A pre-norm transformer block of causal attention and feed-forward."""

    def __init__(self, n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(n_embd, 4 * n_embd),
                "c_proj": nn.Linear(4 * n_embd, n_embd),
                "act": NewGELU(),
                "dropout": nn.Dropout(resid_pdrop),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        hidden = self.mlp["act"](self.mlp["c_fc"](self.ln_2(x)))
        return x + self.mlp["dropout"](self.mlp["c_proj"](hidden))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, seq_len, n_embd)]


def get_init_inputs() -> list[int | float]:
    return [n_embd, n_head, attn_pdrop, resid_pdrop, max_seqlen]
