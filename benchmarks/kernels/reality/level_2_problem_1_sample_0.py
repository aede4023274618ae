"""A fused ReLU and bias after the library's convolution.

kind: fused-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void relu_bias_kernel(const float* __restrict__ x, float* __restrict__ y, long n, const float* __restrict__ bias, int channels, long area) {
    long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = start; i < n; i += stride) {
        float v = x[i];
        float b = bias[i / area % channels];
        y[i] = fmaxf(v, 0.0f) + b;
    }
}

torch::Tensor relu_bias_forward(torch::Tensor x, torch::Tensor bias) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    long n = x.numel();
    long needed = (n + 255) / 256;
    int blocks = needed < 65536 ? (int)needed : 65536;
    relu_bias_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, bias.data_ptr<float>(), bias.numel(), x.numel() / x.size(0) / x.size(1));
    return y;
}
"""

cpp_source = "torch::Tensor relu_bias_forward(torch::Tensor x, torch::Tensor bias);"

relu_bias = load_inline(
    name="relu_bias",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["relu_bias_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        return relu_bias.relu_bias_forward(self.conv(x), self.bias)
