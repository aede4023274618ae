"""Hard tanh with two 16-byte loads in flight per thread; written with comparisons so that NaN stays NaN."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float hard_tanh(float x) {
    x = x < -1.0f ? -1.0f : x;
    return x > 1.0f ? 1.0f : x;
}

__global__ void __launch_bounds__(128) hard_tanh_kernel(const float* x, float* y, long n, bool aligned) {
    long first = (long)blockIdx.x * 1024;
    if (aligned && n - first >= 1024) {
        const float4* source = reinterpret_cast<const float4*>(x + first) + threadIdx.x;
        float4* target = reinterpret_cast<float4*>(y + first) + threadIdx.x;
        float4 a = source[0];
        float4 b = source[128];
        a.x = hard_tanh(a.x);
        a.y = hard_tanh(a.y);
        a.z = hard_tanh(a.z);
        a.w = hard_tanh(a.w);
        b.x = hard_tanh(b.x);
        b.y = hard_tanh(b.y);
        b.z = hard_tanh(b.z);
        b.w = hard_tanh(b.w);
        target[0] = a;
        target[128] = b;
        return;
    }
    long last = min(first + 1024, n);
    for (long i = first + threadIdx.x; i < last; i += 128) {
        y[i] = hard_tanh(x[i]);
    }
}

torch::Tensor hard_tanh_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    if (n == 0) {
        return y;
    }
    const float* source = x.data_ptr<float>();
    bool aligned = reinterpret_cast<uintptr_t>(source) % 16 == 0;
    auto stream = c10::cuda::getCurrentCUDAStream();
    hard_tanh_kernel<<<(n + 1023) / 1024, 128, 0, stream>>>(source, y.data_ptr<float>(), n, aligned);
    return y;
}
"""

extension = load_inline(
    name="founders_hard_tanh",
    cpp_sources="torch::Tensor hard_tanh_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["hard_tanh_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Elementwise clamp to [-1, 1]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.hard_tanh_cuda(x.contiguous())
