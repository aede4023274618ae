"""LeNet-5 in three kernels: each convolution with its ReLU and pooling, then the three linear layers.

The first convolution has one input channel: it runs in fp32 without tensor cores, a thread for each pooled place and
three channels, which reads each of its 36 numbers once. The second finds the six channels of a place side by side, so
the five neighbours in a row of the filter are one run of numbers. It makes a product for each of the four places that
are pooled. The hidden activations of the linear layers stay in registers.

Inputs, weights and what is handed on are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {
    "first": {"BLOCK_P": 256, "num_warps": 4},
    "second": {"BLOCK_P": 64, "num_warps": 4, "num_stages": 1},
    "linear": {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
}


@triton.jit
def top_of(a, b, c, d):
    """The largest of four, or NaN where one is NaN, as PyTorch pools."""
    a = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    c = tl.maximum(c, d, propagate_nan=tl.PropagateNan.ALL)
    return tl.maximum(a, c, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def relu(x):
    return tl.where(x < 0.0, 0.0, x)


@triton.jit
def taps(x, w_ptr, DOWN: tl.constexpr, ACROSS: tl.constexpr, SIZE: tl.constexpr, y00, y01, y10, y11):
    """Add what a number gives to each of the four places that are pooled."""
    if DOWN < SIZE and ACROSS < SIZE:
        y00 += x * tl.load(w_ptr + (DOWN * SIZE + ACROSS)).to(tl.float32)
    if DOWN < SIZE and ACROSS > 0:
        y01 += x * tl.load(w_ptr + (DOWN * SIZE + ACROSS - 1)).to(tl.float32)
    if DOWN > 0 and ACROSS < SIZE:
        y10 += x * tl.load(w_ptr + (DOWN * SIZE - SIZE + ACROSS)).to(tl.float32)
    if DOWN > 0 and ACROSS > 0:
        y11 += x * tl.load(w_ptr + (DOWN * SIZE - SIZE + ACROSS - 1)).to(tl.float32)
    return y00, y01, y10, y11


@triton.jit
def first_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    spots,
    SIDE: tl.constexpr,
    OUTS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """A convolution of one channel with bias, ReLU and pooling; its result has the channels innermost."""
    pooled: tl.constexpr = (SIDE - SIZE + 1) // 2
    spot = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    inside = spot < spots
    sample, place = spot // (pooled * pooled), spot % (pooled * pooled)
    corner = x_ptr + sample * (SIDE * SIDE) + place // pooled * (2 * SIDE) + place % pooled * 2
    out = tl.program_id(1) * 3
    a_ptr = weight_ptr + out * (SIZE * SIZE)
    b_ptr, c_ptr = a_ptr + SIZE * SIZE, a_ptr + 2 * SIZE * SIZE
    zero = tl.zeros([BLOCK_P], tl.float32)
    a00, a01, a10, a11 = zero, zero, zero, zero
    b00, b01, b10, b11 = zero, zero, zero, zero
    c00, c01, c10, c11 = zero, zero, zero, zero
    for down in tl.static_range(SIZE + 1):
        for across in tl.static_range(SIZE + 1):
            x = tl.load(corner + (down * SIDE + across), mask=inside, other=0.0).to(tl.float32)
            a00, a01, a10, a11 = taps(x, a_ptr, down, across, SIZE, a00, a01, a10, a11)
            b00, b01, b10, b11 = taps(x, b_ptr, down, across, SIZE, b00, b01, b10, b11)
            c00, c01, c10, c11 = taps(x, c_ptr, down, across, SIZE, c00, c01, c10, c11)
    a = relu(top_of(a00, a01, a10, a11) + tl.load(bias_ptr + out).to(tl.float32))
    b = relu(top_of(b00, b01, b10, b11) + tl.load(bias_ptr + out + 1).to(tl.float32))
    c = relu(top_of(c00, c01, c10, c11) + tl.load(bias_ptr + out + 2).to(tl.float32))
    out_ptr += spot * OUTS + out
    tl.store(out_ptr, a, mask=inside)
    tl.store(out_ptr + 1, b, mask=inside)
    tl.store(out_ptr + 2, c, mask=inside)


@triton.jit
def second_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    spots,
    SIDE: tl.constexpr,
    CHANNELS: tl.constexpr,
    OUTS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_P: tl.constexpr,
    RUN: tl.constexpr,
):
    """A convolution of channels that are innermost with bias, ReLU and pooling; in its result they are outermost."""
    pooled: tl.constexpr = (SIDE - SIZE + 1) // 2
    places: tl.constexpr = pooled * pooled
    spot = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    sample, place = spot // places, spot % places
    run = tl.arange(0, RUN)
    out = tl.arange(0, OUTS)
    corner = (sample * SIDE + place // pooled * 2) * SIDE + place % pooled * 2
    x_ptrs = x_ptr + corner[:, None] * CHANNELS + run[None, :]
    x_mask = (spot < spots)[:, None] & (run < SIZE * CHANNELS)[None, :]
    w_ptrs = weight_ptr + out[None, :] * (CHANNELS * SIZE * SIZE)
    w_ptrs += (run % CHANNELS * (SIZE * SIZE) + run // CHANNELS)[:, None]
    w_mask = (run < SIZE * CHANNELS)[:, None] & (out < OUTS)[None, :]
    y00 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y01 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y10 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    y11 = tl.zeros([BLOCK_P, OUTS], tl.float32)
    for down in range(SIZE):
        w = tl.load(w_ptrs + down * SIZE, mask=w_mask, other=0.0)
        x = tl.load(x_ptrs + down * (SIDE * CHANNELS), mask=x_mask, other=0.0)
        y00 = tl.dot(x, w, y00)
        x = tl.load(x_ptrs + (down * SIDE + 1) * CHANNELS, mask=x_mask, other=0.0)
        y01 = tl.dot(x, w, y01)
        x = tl.load(x_ptrs + (down * SIDE + SIDE) * CHANNELS, mask=x_mask, other=0.0)
        y10 = tl.dot(x, w, y10)
        x = tl.load(x_ptrs + (down * SIDE + SIDE + 1) * CHANNELS, mask=x_mask, other=0.0)
        y11 = tl.dot(x, w, y11)
    y = relu(top_of(y00, y01, y10, y11) + tl.load(bias_ptr + out).to(tl.float32)[None, :])
    offsets = (sample * (OUTS * places) + place)[:, None] + out[None, :] * places
    tl.store(out_ptr + offsets, y, mask=(spot < spots)[:, None] & (out < OUTS)[None, :])


@triton.jit
def linear_kernel(
    x_ptr,
    first_weight_ptr,
    first_bias_ptr,
    second_weight_ptr,
    second_bias_ptr,
    third_weight_ptr,
    third_bias_ptr,
    out_ptr,
    samples,
    DEEP: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    OUTS: tl.constexpr,
    N_FIRST: tl.constexpr,
    N_OUTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Three linear layers, ReLU between them, for a block of samples."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth, first = tl.arange(0, BLOCK_K), tl.arange(0, N_FIRST)
    x_ptrs = x_ptr + rows[:, None] * DEEP + depth[None, :]
    w_ptrs = first_weight_ptr + first[None, :] * DEEP + depth[:, None]
    x = tl.zeros([BLOCK_M, N_FIRST], tl.float32)
    for start in range(0, DEEP, BLOCK_K):
        near = depth < DEEP - start
        a = tl.load(x_ptrs + start, mask=(rows < samples)[:, None] & near[None, :], other=0.0)
        w = tl.load(w_ptrs + start, mask=near[:, None] & (first < FIRST)[None, :], other=0.0)
        x = tl.dot(a, w, x)
    x = relu(x + tl.load(first_bias_ptr + first, mask=first < FIRST, other=0.0).to(tl.float32)[None, :])
    x = x.to(first_weight_ptr.dtype.element_ty)
    out, inner = tl.arange(0, N_OUTS), tl.arange(0, BLOCK_N)
    y = tl.zeros([BLOCK_M, N_OUTS], tl.float32)
    for start in range(0, SECOND, BLOCK_N):
        near = start + inner
        mask = (first < FIRST)[:, None] & (near < SECOND)[None, :]
        w = tl.load(second_weight_ptr + near[None, :] * FIRST + first[:, None], mask=mask, other=0.0)
        bias = tl.load(second_bias_ptr + near, mask=near < SECOND, other=0.0)
        hidden = relu(tl.dot(x, w) + bias.to(tl.float32)[None, :]).to(w.dtype)
        mask = (near < SECOND)[:, None] & (out < OUTS)[None, :]
        w = tl.load(third_weight_ptr + out[None, :] * SECOND + near[:, None], mask=mask, other=0.0)
        y = tl.dot(hidden, w, y)
    y += tl.load(third_bias_ptr + out, mask=out < OUTS, other=0.0).to(tl.float32)[None, :]
    mask = (rows < samples)[:, None] & (out < OUTS)[None, :]
    tl.store(out_ptr + rows[:, None] * OUTS + out[None, :], y, mask=mask)


def first(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """Pooled ReLU of the convolution of maps (sample, row, column) as (sample, row, column, channel)."""
    batch, _, side, _ = x.shape
    size, outs = conv.kernel_size[0], conv.out_channels
    pooled = (side - size + 1) // 2
    out = torch.empty((batch, pooled, pooled, outs), device=x.device, dtype=x.dtype)
    if max(x.numel(), out.numel()) >= 2**31 or outs % 3:
        raise ValueError(
            "this kernel is written for maps of less than 2^31 numbers, three channels at a time"
        )
    spots = batch * pooled * pooled
    first_kernel[(triton.cdiv(spots, TILE["first"]["BLOCK_P"]), outs // 3)](
        x, conv.weight, conv.bias, out, spots, SIDE=side, OUTS=outs, SIZE=size, **TILE["first"]
    )
    return out


def second(x: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """Pooled ReLU of the convolution of maps (sample, row, column, channel) as rows of (channel, row, column)."""
    batch, side, _, channels = x.shape
    size, outs = conv.kernel_size[0], conv.out_channels
    pooled = (side - size + 1) // 2
    out = torch.empty((batch, outs * pooled * pooled), device=x.device, dtype=x.dtype)
    spots = batch * pooled * pooled
    second_kernel[(triton.cdiv(spots, TILE["second"]["BLOCK_P"]),)](
        x,
        conv.weight,
        conv.bias,
        out,
        spots,
        SIDE=side,
        CHANNELS=channels,
        OUTS=outs,
        SIZE=size,
        RUN=triton.next_power_of_2(size * channels),
        **TILE["second"],
    )
    return out


class ModelNew(nn.Module):
    """The LeNet-5 classifier with ReLU activations and max pooling."""

    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x):
        x = second(first(x.contiguous(), self.conv1), self.conv2)
        samples, deep = x.shape
        outs = self.fc3.out_features
        out = torch.empty((samples, outs), device=x.device, dtype=x.dtype)
        linear_kernel[(triton.cdiv(samples, TILE["linear"]["BLOCK_M"]),)](
            x,
            self.fc1.weight,
            self.fc1.bias,
            self.fc2.weight,
            self.fc2.bias,
            self.fc3.weight,
            self.fc3.bias,
            out,
            samples,
            DEEP=deep,
            FIRST=self.fc1.out_features,
            SECOND=self.fc2.out_features,
            OUTS=outs,
            N_FIRST=triton.next_power_of_2(self.fc1.out_features),
            N_OUTS=max(16, triton.next_power_of_2(outs)),
            **TILE["linear"],
        )
        return out
