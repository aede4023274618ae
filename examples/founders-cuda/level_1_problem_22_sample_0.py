"""Hyperbolic tangent, two 16-byte loads in flight per thread.

The library's tanhf keeps its relative accuracy near zero, which the quotient of exponentials would lose; the
memory is slower than both.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float tanh_of(float x) {
    return tanhf(x);
}

__global__ void __launch_bounds__(128) tanh_of_kernel(const float* x, float* y, long n, bool aligned) {
    long first = (long)blockIdx.x * 1024;
    if (aligned && n - first >= 1024) {
        const float4* source = reinterpret_cast<const float4*>(x + first) + threadIdx.x;
        float4* target = reinterpret_cast<float4*>(y + first) + threadIdx.x;
        float4 a = source[0];
        float4 b = source[128];
        a.x = tanh_of(a.x);
        a.y = tanh_of(a.y);
        a.z = tanh_of(a.z);
        a.w = tanh_of(a.w);
        b.x = tanh_of(b.x);
        b.y = tanh_of(b.y);
        b.z = tanh_of(b.z);
        b.w = tanh_of(b.w);
        target[0] = a;
        target[128] = b;
        return;
    }
    long last = min(first + 1024, n);
    for (long i = first + threadIdx.x; i < last; i += 128) {
        y[i] = tanh_of(x[i]);
    }
}

torch::Tensor tanh_of_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    if (n == 0) {
        return y;
    }
    const float* source = x.data_ptr<float>();
    bool aligned = reinterpret_cast<uintptr_t>(source) % 16 == 0;
    auto stream = c10::cuda::getCurrentCUDAStream();
    tanh_of_kernel<<<(n + 1023) / 1024, 128, 0, stream>>>(source, y.data_ptr<float>(), n, aligned);
    return y;
}
"""

extension = load_inline(
    name="founders_tanh_of",
    cpp_sources="torch::Tensor tanh_of_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["tanh_of_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Elementwise hyperbolic tangent."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.tanh_of_cuda(x.contiguous())
