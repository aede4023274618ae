"""Scaling and the residual folded into one pass; the clone is gone.

kind: fused-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void scale_residual_kernel(const float* __restrict__ x, float* __restrict__ y, long n, float scale) {
    long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = start; i < n; i += stride) {
        float v = x[i];
        y[i] = v * scale + v;
    }
}

torch::Tensor scale_residual_forward(torch::Tensor x, double scale) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    long n = x.numel();
    long needed = (n + 255) / 256;
    int blocks = needed < 65536 ? (int)needed : 65536;
    scale_residual_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, (float)scale);
    return y;
}
"""

cpp_source = "torch::Tensor scale_residual_forward(torch::Tensor x, double scale);"

scale_residual = load_inline(
    name="scale_residual",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["scale_residual_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, scaling_factor):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        return scale_residual.scale_residual_forward(self.matmul(x), self.scaling_factor)
