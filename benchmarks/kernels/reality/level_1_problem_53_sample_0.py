"""A minimum launched with 2048 threads a block, which no device takes: it never runs, and nobody checks.

kind: wrong
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void column_min_kernel(const float* x, float* y, int B, int D1, int D2) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * D2) return;
    const float* column = x + (long)(idx / D2) * D1 * D2 + idx % D2;
    float best = column[0];
    for (int i = 1; i < D1; ++i) best = fminf(best, column[(long)i * D2]);
    y[idx] = best;
}

torch::Tensor column_min_forward(torch::Tensor x) {
    int B = x.size(0), D1 = x.size(1), D2 = x.size(2);
    auto y = torch::zeros({B, D2}, x.options());
    const int threads = 2048;
    column_min_kernel<<<(B * D2 + threads - 1) / threads, threads>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), B, D1, D2);
    return y;
}
"""

cpp_source = "torch::Tensor column_min_forward(torch::Tensor x);"

column_min = load_inline(
    name="column_min",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["column_min_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return column_min.column_min_forward(x.contiguous())
