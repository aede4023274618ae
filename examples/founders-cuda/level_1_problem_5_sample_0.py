"""A matrix times a scalar: two 16-byte loads in flight per thread, small blocks, no cache hints."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float scale(float x, float factor) {
    return x * factor;
}

__global__ void __launch_bounds__(128) scale_kernel(const float* x, float* y, long n, bool aligned, float factor) {
    long first = (long)blockIdx.x * 1024;
    if (aligned && n - first >= 1024) {
        const float4* source = reinterpret_cast<const float4*>(x + first) + threadIdx.x;
        float4* target = reinterpret_cast<float4*>(y + first) + threadIdx.x;
        float4 a = source[0];
        float4 b = source[128];
        a.x = scale(a.x, factor);
        a.y = scale(a.y, factor);
        a.z = scale(a.z, factor);
        a.w = scale(a.w, factor);
        b.x = scale(b.x, factor);
        b.y = scale(b.y, factor);
        b.z = scale(b.z, factor);
        b.w = scale(b.w, factor);
        target[0] = a;
        target[128] = b;
        return;
    }
    long last = min(first + 1024, n);
    for (long i = first + threadIdx.x; i < last; i += 128) {
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
    bool aligned = reinterpret_cast<uintptr_t>(source) % 16 == 0;
    auto stream = c10::cuda::getCurrentCUDAStream();
    scale_kernel<<<(n + 1023) / 1024, 128, 0, stream>>>(source, y.data_ptr<float>(), n, aligned, (float)factor);
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
