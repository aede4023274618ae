"""Last state of a Mamba-2 scan in one read of its inputs.

Chunks serve to bound intermediate results; here there are none. With d[t] the sum of a over the steps after t,
the last state is the sum over t of exp(d[t]) x[t] b[t]^T: one product of depth `length` a head, after a reverse
cumulative sum in double precision, since the exponential turns its errors into relative ones. What the outputs would need (C and the products within chunks) is not part of the last state.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def precise_exp(x, rest):
    """exp(x + rest) for a small rest: the hardware's exp2 alone loses digits where |x| is large."""
    scaled = x * 1.4426950408889634
    error = tl.fma(x, tl.full(x.shape, 1.4426950408889634, tl.float32), -scaled) + x * 1.925963033500011e-08
    y = tl.exp2(scaled)
    return y + y * (error * 0.6931471805599453 + rest)


@triton.jit
def state_kernel(
    x_ptr, a_ptr, b_ptr, out_ptr, length, heads, LENGTH: tl.constexpr, SIZE: tl.constexpr, STATE: tl.constexpr
):
    sample, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    steps = tl.arange(0, LENGTH)
    p = tl.arange(0, SIZE)
    n = tl.arange(0, STATE)
    cells = (sample * length + steps) * heads + head
    following = tl.load(a_ptr + cells + heads, mask=steps + 1 < length, other=0.0)
    exponent = tl.cumsum(following.to(tl.float64), axis=0, reverse=True)
    rounded = exponent.to(tl.float32)
    decay = precise_exp(rounded, (exponent - rounded).to(tl.float32))
    inside = steps[:, None] < length
    x = tl.load(x_ptr + cells[:, None] * SIZE + p[None, :], mask=inside, other=0.0)
    b = tl.load(b_ptr + cells[:, None] * STATE + n[None, :], mask=inside, other=0.0)
    state = tl.dot(tl.trans(x), b * decay[:, None], input_precision="tf32x3")
    slot = tl.program_id(0).to(tl.int64) * SIZE * STATE
    tl.store(out_ptr + slot + p[:, None] * STATE + n[None, :], state)


class ModelNew(nn.Module):
    """A Mamba-2 scan over learned decays and projections that returns its last state."""

    def __init__(self, batch_size, seq_length, n_heads, d_head, d_state, block_len=64):
        super().__init__()
        self.A = nn.Parameter(torch.randn(batch_size, seq_length, n_heads))
        self.B = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))
        self.C = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))

    def forward(self, X, initial_states=None):
        if initial_states is not None:
            raise ValueError("this kernel starts from a state of zeros")
        X = X.contiguous()
        batch, length, heads, size = X.shape
        states = self.B.shape[-1]
        out = torch.empty((batch, heads, size, states), device=X.device, dtype=X.dtype)
        state_kernel[(batch * heads,)](
            X,
            self.A,
            self.B,
            out,
            length,
            heads,
            LENGTH=triton.next_power_of_2(length),
            SIZE=size,
            STATE=states,
            num_warps=4,
        )
        return out
