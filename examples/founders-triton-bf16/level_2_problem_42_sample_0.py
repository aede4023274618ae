"""Transposed convolution, mean, bias, logsumexp, sum, scaling, without the convolution.

Without stride and padding every input element meets every tap once, so the sum over the positions of the
result is the sum of the input plane times the sum of the taps: an exact identity that leaves one read of the
input. What remains is a small product and a logsumexp, one program a sample.

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
def plane_sum_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * n
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += load(x_ptr + start + lanes, mask=start + lanes < n, other=0.0)
    tl.store(sum_ptr + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def logsumexp_kernel(
    sum_ptr,
    weight_ptr,
    conv_bias_ptr,
    bias_ptr,
    out_ptr,
    inputs,
    outputs,
    positions,
    TAPS: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
):
    i = tl.arange(0, INPUTS)
    o = tl.arange(0, OUTPUTS)
    mask = (i[:, None] < inputs) & (o[None, :] < outputs)
    taps = tl.zeros([INPUTS, OUTPUTS], tl.float32)
    for tap in tl.static_range(TAPS):
        taps += load(weight_ptr + (i[:, None] * outputs + o[None, :]) * TAPS + tap, mask=mask, other=0.0)
    sums = load(sum_ptr + tl.program_id(0) * inputs + i, mask=i < inputs, other=0.0)
    x = tl.sum(taps * sums[:, None], axis=0) / positions
    x += load(conv_bias_ptr + o, mask=o < outputs, other=0.0)
    x += load(bias_ptr + o, mask=o < outputs, other=0.0)
    x = tl.where(o < outputs, x, float("-inf"))
    peak = tl.max(x, axis=0)
    tl.store(out_ptr + tl.program_id(0), (tl.log(tl.sum(tl.exp(x - peak), axis=0)) + peak) * 10.0)


class ModelNew(nn.Module):
    """Transposed convolution, spatial mean, bias, log-sum-exp over channels, sum, factor ten."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        batch, inputs, height, width = x.shape
        weight = self.conv_transpose.weight
        outputs, kernel_height, kernel_width = weight.shape[1:]
        positions = (height + kernel_height - 1) * (width + kernel_width - 1)
        sums = torch.empty(batch * inputs, device=x.device, dtype=torch.float32)
        out = torch.empty((batch, 1), device=x.device, dtype=x.dtype)
        plane_sum_kernel[(batch * inputs,)](x, sums, height * width, BLOCK=4096, num_warps=8)
        logsumexp_kernel[(batch,)](
            sums,
            weight,
            self.conv_transpose.bias,
            self.bias,
            out,
            inputs,
            outputs,
            positions,
            TAPS=kernel_height * kernel_width,
            INPUTS=triton.next_power_of_2(inputs),
            OUTPUTS=triton.next_power_of_2(outputs),
            num_warps=8,
        )
        return out
