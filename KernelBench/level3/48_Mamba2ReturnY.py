"""The chunked state space scan of Mamba-2 with log-decays A and projections B and C that are parameters drawn
from the standard normal distribution (one per batch entry and time step): for every head the state s[t] =
exp(A[t]) s[t-1] + X[t] B[t]^T and the output s[t] C[t] are computed in chunks of block_len steps, as a masked
attention within each chunk plus the effect of the states passed between chunks; X has shape (batch_size,
seq_length, n_heads, d_head), the state d_state columns, and the result has the shape of X, float32. As A is
as often positive as negative, decays grow and the outputs span many orders of magnitude.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
seq_length = 128
n_heads = 8
d_head = 64
d_state = 16
block_len = 64


def segment_sums(x):
    """Sum x over s + 1 .. l for all l >= s of the last axis, -inf above the diagonal."""
    length = x.size(-1)
    sums = torch.cumsum(x, dim=-1)
    sums = sums[..., :, None] - sums[..., None, :]
    allowed = torch.tril(torch.ones(length, length, device=x.device, dtype=torch.bool), diagonal=0)
    return sums.masked_fill(~allowed, float("-inf"))


class Model(nn.Module):
    """A Mamba-2 scan over learned decays and projections that returns its outputs."""

    def __init__(self, batch_size, seq_length, n_heads, d_head, d_state, block_len=64):
        super().__init__()
        self.batch_size = batch_size
        self.seq_length = seq_length
        self.n_heads = n_heads
        self.d_head = d_head
        self.d_state = d_state
        self.block_len = block_len
        self.A = nn.Parameter(torch.randn(batch_size, seq_length, n_heads))
        self.B = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))
        self.C = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))

    def chunked(self, x):
        """Split the time axis into (chunks, block_len)."""
        batch, length = x.shape[:2]
        return x.reshape(batch, length // self.block_len, self.block_len, *x.shape[2:])

    def forward(self, X, initial_states=None):
        # Axes: b batch, c chunk, l and s position in the chunk, h head, p head value, n state value.
        x, a, b, c = (self.chunked(tensor) for tensor in (X, self.A, self.B, self.C))
        a = a.permute(0, 3, 1, 2)
        a_cumsum = torch.cumsum(a, dim=-1)
        decay_within = torch.exp(segment_sums(a))
        y_diagonal = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decay_within, x)
        decay_to_end = torch.exp(a_cumsum[:, :, :, -1:] - a_cumsum)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, decay_to_end, x)
        if initial_states is None:
            initial_states = torch.zeros_like(states[:, :1])
        states = torch.cat([initial_states, states], dim=1)
        decay_between = torch.exp(segment_sums(F.pad(a_cumsum[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", decay_between, states)
        states = states[:, :-1]
        decay_from_start = torch.exp(a_cumsum)
        y_carried = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, decay_from_start)
        return (y_diagonal + y_carried).reshape(X.shape)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, seq_length, n_heads, d_head)]


def get_init_inputs() -> list[int]:
    return [batch_size, seq_length, n_heads, d_head, d_state, block_len]
