"""Log-softmax over long rows: a running maximum and sum, then a second pass.

kind: triton
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * n_cols
    y_row = y_ptr + row * n_cols
    lanes = tl.arange(0, BLOCK_SIZE)
    largest = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(x_row + cols, mask=cols < n_cols, other=-1.0e30)
        grown = tl.maximum(largest, x)
        total = total * tl.exp(largest - grown) + tl.exp(x - grown)
        largest = grown
    top = tl.max(largest, axis=0)
    log_total = top + tl.log(tl.sum(total * tl.exp(largest - top), axis=0))
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + lanes
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0)
        tl.store(y_row + cols, x - log_total, mask=cols < n_cols)


class ModelNew(nn.Module):
    def __init__(self, dim=1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        log_softmax_kernel[(rows,)](x.contiguous(), y, cols, BLOCK_SIZE=4096, num_warps=8)
        return y
