"""A fused bias, scale and sigmoid that includes a header which is nowhere.

kind: does-not-compile
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include "block_reduce.cuh"

__global__ void bias_scale_kernel(const float* __restrict__ x, float* __restrict__ y, long n, const float* __restrict__ bias, int channels, long area, const float* scale) {
    long start = (long)blockIdx.x * blockDim.x + threadIdx.x;
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = start; i < n; i += stride) {
        float v = x[i];
        float b = bias[i / area % channels];
        y[i] = 1.0f / (1.0f + expf(-(v + b) * scale[i / area % channels]));
    }
}

torch::Tensor bias_scale_forward(torch::Tensor x, torch::Tensor bias, torch::Tensor scale) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    long n = x.numel();
    long needed = (n + 255) / 256;
    int blocks = needed < 65536 ? (int)needed : 65536;
    bias_scale_kernel<<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, bias.data_ptr<float>(), bias.numel(), x.numel() / x.size(0) / x.size(1), scale.data_ptr<float>());
    return y;
}
"""

cpp_source = "torch::Tensor bias_scale_forward(torch::Tensor x, torch::Tensor bias, torch::Tensor scale);"

bias_scale = load_inline(
    name="bias_scale",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["bias_scale_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, num_groups, bias_shape, scale_shape):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale = nn.Parameter(torch.randn(scale_shape))
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        return self.group_norm(bias_scale.bias_scale_forward(self.conv(x), self.bias, self.scale))
