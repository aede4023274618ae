"""A mean whose unrolled loop leaves out the last sixteen rows: wrong by four per mille.

kind: wrong
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void column_mean_kernel(const float* x, float* y, int B, int D1, int D2) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * D2) return;
    const float* column = x + (long)(idx / D2) * D1 * D2 + idx % D2;
    float sum = 0.0f;
    for (int i = 0; i + 16 < D1; i += 16) {
#pragma unroll
        for (int j = 0; j < 16; ++j) sum += column[(long)(i + j) * D2];
    }
    y[idx] = sum / D1;
}

torch::Tensor column_mean_forward(torch::Tensor x) {
    int B = x.size(0), D1 = x.size(1), D2 = x.size(2);
    auto y = torch::empty({B, D2}, x.options());
    column_mean_kernel<<<(B * D2 + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), B, D1, D2);
    return y;
}
"""

cpp_source = "torch::Tensor column_mean_forward(torch::Tensor x);"

column_mean = load_inline(
    name="column_mean",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["column_mean_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return column_mean.column_mean_forward(x.contiguous())
