"""Smooth L1 loss: partial sums of blocks in Triton, their mean in PyTorch.

kind: triton
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def smooth_l1_kernel(p_ptr, t_ptr, partial_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid.to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    p = tl.load(p_ptr + offsets, mask=mask, other=0.0)
    t = tl.load(t_ptr + offsets, mask=mask, other=0.0)
    distance = tl.abs(p - t)
    loss = tl.where(distance < 1.0, 0.5 * distance * distance, distance - 0.5)
    tl.store(partial_ptr + pid, tl.sum(loss, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, predictions, targets):
        n = predictions.numel()
        block = 8192
        partial = torch.empty(triton.cdiv(n, block), device=predictions.device, dtype=torch.float32)
        smooth_l1_kernel[(partial.numel(),)](
            predictions.contiguous(), targets.contiguous(), partial, n, BLOCK_SIZE=block, num_warps=8
        )
        return partial.sum() / n
