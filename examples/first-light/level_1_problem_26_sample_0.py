"""Exact GELU in CUDA: 16-byte loads and stores with streaming hints, the error function in registers."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ y, long n) {
    long vectors = n / 4;
    long stride = (long)gridDim.x * blockDim.x;
    long first = (long)blockIdx.x * blockDim.x + threadIdx.x;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);
    for (long i = first; i < vectors; i += stride) {
        float4 v = __ldcs(x4 + i);
        v.x = gelu(v.x);
        v.y = gelu(v.y);
        v.z = gelu(v.z);
        v.w = gelu(v.w);
        __stcs(y4 + i, v);
    }
    for (long i = 4 * vectors + first; i < n; i += stride) {
        y[i] = gelu(x[i]);
    }
}

torch::Tensor gelu_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    int blocks = (int)std::min((n / 4 + 255) / 256 + 1, (long)65536);
    gelu_kernel<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                          y.data_ptr<float>(), n);
    return y;
}
"""

extension = load_inline(
    name="first_light_gelu",
    cpp_sources="torch::Tensor gelu_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["gelu_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Elementwise GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.gelu_cuda(x.contiguous())
