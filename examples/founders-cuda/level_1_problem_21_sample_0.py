"""Sigmoid from one exponential and one approximate division, four 16-byte loads in flight per thread.

Where the exponential overflows, the quotient is 0, which is the limit.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float sigmoid(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

__global__ void __launch_bounds__(256) sigmoid_kernel(const float* __restrict__ x, float* __restrict__ y,
                                                     long vectors, long n) {
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);
    long first = (long)blockIdx.x * 1024 + threadIdx.x;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (first + 256 * j < vectors) {
            v[j] = __ldcs(x4 + first + 256 * j);
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (first + 256 * j < vectors) {
            v[j].x = sigmoid(v[j].x);
            v[j].y = sigmoid(v[j].y);
            v[j].z = sigmoid(v[j].z);
            v[j].w = sigmoid(v[j].w);
            __stcs(y4 + first + 256 * j, v[j]);
        }
    }
    long stride = (long)gridDim.x * 256;
    for (long i = 4 * vectors + (long)blockIdx.x * 256 + threadIdx.x; i < n; i += stride) {
        y[i] = sigmoid(x[i]);
    }
}

torch::Tensor sigmoid_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    if (n == 0) {
        return y;
    }
    const float* source = x.data_ptr<float>();
    long vectors = reinterpret_cast<uintptr_t>(source) % 16 == 0 ? n / 4 : 0;
    long tail_blocks = std::min((n - 4 * vectors + 255) / 256, (long)65536);
    long blocks = std::max((vectors + 1023) / 1024, tail_blocks);
    auto stream = c10::cuda::getCurrentCUDAStream();
    sigmoid_kernel<<<blocks, 256, 0, stream>>>(source, y.data_ptr<float>(), vectors, n);
    return y;
}
"""

extension = load_inline(
    name="founders_sigmoid",
    cpp_sources="torch::Tensor sigmoid_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["sigmoid_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Elementwise sigmoid."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.sigmoid_cuda(x.contiguous())
