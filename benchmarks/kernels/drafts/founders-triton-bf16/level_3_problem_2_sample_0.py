"""Shallow, wide multilayer perceptron whose time is the reading of its weights: one or two kernels a layer.

The time goes into the reading of the weights, which the copy engine brings once, as they lie. A program has all
rows of x and many columns of the output, so that the rows are read anew seldom. Where the columns are too few for
all multiprocessors, some programs share the depth of a tile, and a small kernel adds up their sums.

Inputs, weights and outputs are bf16; all between the product and what is written is fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

TILE = {
    "PROGRAMS": 132,
    "TURNS": 1,
    "BLOCK_M": 128,
    "BLOCK_N": 256,
    "BLOCK_K": 64,
    "num_warps": 8,
    "num_stages": 4,
}
MOST_SPLITS = 8


@triton.jit
def finish(x, bias_ptr, columns, N, RELU: tl.constexpr):
    x += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    if RELU:
        x = tl.where(x < 0.0, 0.0, x)
    return x


@triton.jit
def linear_kernel(
    x_desc,
    w_desc,
    bias_ptr,
    out_ptr,
    M,
    N,
    K,
    RELU: tl.constexpr,
    SPLITS: tl.constexpr,
    TURNS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One tile of x W^T over one part of the depth; finished where that is all of it.

    Programs begin at so many different depths, lest all ask for the same values of x at once.
    """
    tiles_m = tl.cdiv(M, BLOCK_M)
    row = tl.program_id(0) % tiles_m * BLOCK_M
    column = tl.program_id(0) // tiles_m * BLOCK_N
    part, steps = tl.program_id(1), tl.cdiv(K, BLOCK_K)
    first, end = steps * part // SPLITS, steps * (part + 1) // SPLITS
    turn = tl.program_id(0) % TURNS * (end - first) // TURNS
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for step in range(first, end):
        at = step + turn
        at = tl.where(at < end, at, at - (end - first)) * BLOCK_K
        x = x_desc.load([row, at])
        w = w_desc.load([column, at])
        sums = tl.dot(x, w.T, sums)
    rows, columns = row + tl.arange(0, BLOCK_M)[:, None], column + tl.arange(0, BLOCK_N)[None, :]
    if SPLITS == 1:
        sums = finish(sums, bias_ptr, columns, N, RELU)
    offsets = (part * M + rows).to(tl.int64) * N + columns
    tl.store(out_ptr + offsets, sums, mask=(rows < M) & (columns < N))


@triton.jit
def join_kernel(
    parts_ptr, bias_ptr, out_ptr, M, N, RELU: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr
):
    """Add up the parts of some of a row, and finish it."""
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row, inside = tl.program_id(0).to(tl.int64), columns < N
    x = tl.load(parts_ptr + row * N + columns, mask=inside, other=0.0)
    for part in tl.static_range(1, SPLITS):
        x += tl.load(parts_ptr + (part * M + row) * N + columns, mask=inside, other=0.0)
    x = finish(x, bias_ptr, columns, N, RELU)
    tl.store(out_ptr + row * N + columns, x, mask=inside)


def linear(x: torch.Tensor, layer: nn.Linear, *, relu: bool) -> torch.Tensor:
    """A layer with or without ReLU."""
    (rows, k), features = x.shape, len(layer.weight)
    if k % 8:
        raise ValueError("the copy engine takes rows that are whole numbers of 16 bytes")
    m, n, depth = (TILE[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    tiles = triton.cdiv(rows, m) * triton.cdiv(features, n)
    splits = max(1, min(TILE["PROGRAMS"] // tiles, triton.cdiv(k, depth), MOST_SPLITS))
    out = torch.empty((rows, features), device=x.device, dtype=x.dtype)
    sums = out
    if splits > 1:
        sums = torch.empty((splits, rows, features), device=x.device, dtype=torch.float32)
    linear_kernel[(tiles, splits)](
        TensorDescriptor.from_tensor(x, [m, depth]),
        TensorDescriptor.from_tensor(layer.weight, [n, depth]),
        layer.bias,
        sums,
        rows,
        features,
        k,
        RELU=relu,
        SPLITS=splits,
        TURNS=TILE["TURNS"],
        BLOCK_M=m,
        BLOCK_N=n,
        BLOCK_K=depth,
        num_warps=TILE["num_warps"],
        num_stages=TILE["num_stages"],
    )
    if splits > 1:
        join_kernel[(rows, triton.cdiv(features, 2048))](
            sums, layer.bias, out, rows, features, RELU=relu, SPLITS=splits, BLOCK=2048, num_warps=8
        )
    return out


class ModelNew(nn.Module):
    """Linear and ReLU alternating over a few very wide hidden layers, closed by a linear layer."""

    def __init__(self, input_size, hidden_layer_sizes, output_size):
        super().__init__()
        layers = []
        width = input_size
        for hidden_size in hidden_layer_sizes:
            layers += [nn.Linear(width, hidden_size), nn.ReLU()]
            width = hidden_size
        layers.append(nn.Linear(width, output_size))
        self.network = nn.Sequential(*layers)

    def forward(self, x):
        *hidden, last = [layer for layer in self.network if isinstance(layer, nn.Linear)]
        x = x.contiguous()
        for layer in hidden:
            x = linear(x, layer, relu=True)
        return linear(x, last, relu=False)
