"""A sigmoid replaced by a cheap curve that looks like it.

kind: wrong
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void cheap_sigmoid_kernel(const float* __restrict__ x, float* __restrict__ y, long n) {
    long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = start; i < n; i += stride) {
        float v = x[i];
        y[i] = 0.5f + 0.5f * v / (1.0f + fabsf(v));
    }
}

torch::Tensor cheap_sigmoid_forward(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    long n = x.numel();
    long needed = (n + 255) / 256;
    int blocks = needed < 65536 ? (int)needed : 65536;
    cheap_sigmoid_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

cpp_source = "torch::Tensor cheap_sigmoid_forward(torch::Tensor x);"

cheap_sigmoid = load_inline(
    name="cheap_sigmoid",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["cheap_sigmoid_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return cheap_sigmoid.cheap_sigmoid_forward(x)
