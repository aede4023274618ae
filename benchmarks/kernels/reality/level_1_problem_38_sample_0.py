"""L1 norm with one thread a row: neighbouring threads read 65,535 elements apart.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void row_l1_kernel(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        const float* in = x + (long)row * cols;
        float* out = y + (long)row * cols;
        double sum = 0.0;
        for (int i = 0; i < cols; i++) {
            sum += fabsf(in[i]);
        }
        float mean = (float)(sum / cols);
        for (int i = 0; i < cols; i++) {
            out[i] = in[i] / mean;
        }
    }
}

torch::Tensor row_l1_forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    int cols = x.size(1);
    row_l1_kernel<<<(rows + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

cpp_source = "torch::Tensor row_l1_forward(torch::Tensor x);"

row_l1 = load_inline(
    name="row_l1",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["row_l1_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return row_l1.row_l1_forward(x)
