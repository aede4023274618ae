"""A matrix times a scalar: four independent 16-byte loads in flight per thread and streaming hints."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float scale(float x, float factor) {
    return x * factor;
}

__global__ void __launch_bounds__(256) scale_kernel(const float* __restrict__ x, float* __restrict__ y,
                                                     long vectors, long n, float factor) {
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
            v[j].x = scale(v[j].x, factor);
            v[j].y = scale(v[j].y, factor);
            v[j].z = scale(v[j].z, factor);
            v[j].w = scale(v[j].w, factor);
            __stcs(y4 + first + 256 * j, v[j]);
        }
    }
    long stride = (long)gridDim.x * 256;
    for (long i = 4 * vectors + (long)blockIdx.x * 256 + threadIdx.x; i < n; i += stride) {
        y[i] = scale(x[i], factor);
    }
}

torch::Tensor scale_cuda(torch::Tensor x, double factor) {
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
    scale_kernel<<<blocks, 256, 0, stream>>>(source, y.data_ptr<float>(), vectors, n, (float)factor);
    return y;
}
"""

extension = load_inline(
    name="founders_scale",
    cpp_sources="torch::Tensor scale_cuda(torch::Tensor x, double factor);",
    cuda_sources=CUDA_SOURCE,
    functions=["scale_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Matrix times scalar."""

    def forward(self, A: torch.Tensor, s: float) -> torch.Tensor:
        return extension.scale_cuda(A.contiguous(), float(s))
