"""A cumulative sum with one thread a row, in order.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void row_cumsum_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (long)row * cols;
    float* out = y + (long)row * cols;
    float running = 0.0f;
    for (int i = 0; i < cols; ++i) {
        running += in[i];
        out[i] = running;
    }
}

torch::Tensor row_cumsum_forward(torch::Tensor x) {
    int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty_like(x);
    row_cumsum_kernel<<<(rows + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

cpp_source = "torch::Tensor row_cumsum_forward(torch::Tensor x);"

row_cumsum = load_inline(
    name="row_cumsum",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_cumsum_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        if self.dim != 1 or x.dim() != 2:
            return torch.cumsum(x, dim=self.dim)
        return row_cumsum.row_cumsum_forward(x.contiguous())
