"""A fused Mish that calls a helper which the model forgot to write.

kind: does-not-compile
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void mish_twice_kernel(const float* __restrict__ x, float* __restrict__ y, long n) {
    long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = start; i < n; i += stride) {
        float v = x[i];
        y[i] = mish_device(mish_device(v));
    }
}

torch::Tensor mish_twice_forward(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    long n = x.numel();
    long needed = (n + 255) / 256;
    int blocks = needed < 65536 ? (int)needed : 65536;
    mish_twice_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

cpp_source = "torch::Tensor mish_twice_forward(torch::Tensor x);"

mish_twice = load_inline(
    name="mish_twice",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["mish_twice_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return mish_twice.mish_twice_forward(self.linear(x))
