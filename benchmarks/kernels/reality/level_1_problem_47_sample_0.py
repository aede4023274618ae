"""A sum over the middle dimension, one thread an output; reads are coalesced by luck.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void column_sum_kernel(const float* x, float* y, int B, int D1, int D2) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * D2) return;
    int b = idx / D2;
    int j = idx % D2;
    float sum = 0.0f;
    for (int i = 0; i < D1; ++i) {
        sum += x[((long)b * D1 + i) * D2 + j];
    }
    y[idx] = sum;
}

torch::Tensor column_sum_forward(torch::Tensor x) {
    int B = x.size(0), D1 = x.size(1), D2 = x.size(2);
    auto y = torch::empty({B, 1, D2}, x.options());
    int threads = 256;
    int blocks = (B * D2 + threads - 1) / threads;
    column_sum_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), B, D1, D2);
    return y;
}
"""

cpp_source = "torch::Tensor column_sum_forward(torch::Tensor x);"

column_sum = load_inline(
    name="column_sum",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["column_sum_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        assert self.dim == 1
        return column_sum.column_sum_forward(x.contiguous())
