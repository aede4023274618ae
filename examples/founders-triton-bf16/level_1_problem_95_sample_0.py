"""Cross-entropy with one read of the logits: a program holds its whole row in registers.

Maximum, sum of exponentials and the target's logit come from the same registers; a second, tiny kernel takes
the mean of the row losses in a fixed order.

Inputs, weights and outputs are bf16; it calculates in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def load(ptr, mask=None, other=None):
    x = tl.load(ptr, mask=mask, other=other)
    if x.dtype == tl.bfloat16:
        x = x.to(tl.float32)
    return x


@triton.jit
def row_loss_kernel(x_ptr, target_ptr, loss_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    target = load(target_ptr + row)
    picked = load(x_ptr + row * n_cols + target)
    peak = tl.max(x, axis=0)
    total = tl.sum(tl.exp(x - peak), axis=0)
    tl.store(loss_ptr + row, tl.log(total) + peak - picked)


@triton.jit
def mean_kernel(loss_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += load(loss_ptr + start + lanes, mask=start + lanes < n, other=0.0)
    tl.store(y_ptr, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    """Mean cross-entropy loss between logits and class indices."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        predictions = predictions.contiguous()
        n_rows, n_cols = predictions.shape
        losses = torch.empty(n_rows, device=predictions.device, dtype=torch.float32)
        y = torch.empty((), device=predictions.device, dtype=predictions.dtype)
        block = triton.next_power_of_2(n_cols)
        row_loss_kernel[(n_rows,)](predictions, targets, losses, n_cols, BLOCK=block, num_warps=8)
        mean_kernel[(1,)](losses, y, n_rows, BLOCK=4096, num_warps=8)
        return y
