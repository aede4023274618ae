"""Group norm and hardtanh in one Triton kernel after the library's product: hardly a gain.

kind: triton
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm_clamp_kernel(
    x_ptr, y_ptr, weight_ptr, bias_ptr, width, groups, eps, low, high, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0)
    group = row % groups
    lanes = tl.arange(0, BLOCK_SIZE)
    mask = lanes < width
    x = tl.load(x_ptr + row * width + lanes, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / width
    weight = tl.load(weight_ptr + group * width + lanes, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + group * width + lanes, mask=mask, other=0.0)
    y = centred * tl.rsqrt(variance + eps) * weight + bias
    y = tl.minimum(tl.maximum(y, low), high)
    tl.store(y_ptr + row * width + lanes, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, num_groups, hardtanh_min, hardtanh_max):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.low, self.high = hardtanh_min, hardtanh_max

    def forward(self, x):
        x = self.gemm(x)
        norm = self.group_norm
        width = x.shape[1] // norm.num_groups
        y = torch.empty_like(x)
        group_norm_clamp_kernel[(x.shape[0] * norm.num_groups,)](
            x,
            y,
            norm.weight,
            norm.bias,
            width,
            norm.num_groups,
            norm.eps,
            self.low,
            self.high,
            BLOCK_SIZE=triton.next_power_of_2(width),
        )
        return y
