"""Softmax with one thread a row: three passes over 393,216 columns, each thread in its own row.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void row_softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (long)row * cols;
    float* out = y + (long)row * cols;
    float largest = in[0];
    for (int i = 1; i < cols; ++i) largest = fmaxf(largest, in[i]);
    double total = 0.0;
    for (int i = 0; i < cols; ++i) total += expf(in[i] - largest);
    float scale = (float)(1.0 / total);
    for (int i = 0; i < cols; ++i) out[i] = expf(in[i] - largest) * scale;
}

torch::Tensor row_softmax_forward(torch::Tensor x) {
    int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty_like(x);
    int threads = 32;
    row_softmax_kernel<<<(rows + threads - 1) / threads, threads>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

cpp_source = "torch::Tensor row_softmax_forward(torch::Tensor x);"

row_softmax = load_inline(
    name="row_softmax",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_softmax_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return row_softmax.row_softmax_forward(x.contiguous())
