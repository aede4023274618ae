"""Triton and CUDA C++ side by side."""

import torch
import triton
import triton.language as tl


@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0.0, 0.0, value), mask=at < n)


shift = torch.cuda._compile_kernel(
    """extern "C" __global__ void shift(float* y, const float* bias, long n, int columns) {
        long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
        if (i < n) y[i] += bias[i % columns]; }""",
    "shift",
)


class ModelNew(torch.nn.Module):
    def __init__(self, in_features, out_features, bias_shape):
        super().__init__()
        self.gemm = torch.nn.Linear(in_features, out_features, bias=False)
        self.bias = torch.nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.gemm(x)
        shift((triton.cdiv(x.numel(), 256), 1, 1), (256, 1, 1), (x, self.bias, x.numel(), x.shape[1]))
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
        return y
