"""Swish in one pass, where eager PyTorch writes the sigmoid out and reads it back."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float swish(float x) {
    return x * __fdividef(1.0f, 1.0f + __expf(-x));
}

__global__ void __launch_bounds__(128) swish_kernel(const float* x, float* y, long n, bool aligned) {
    long first = (long)blockIdx.x * 1024;
    if (aligned && n - first >= 1024) {
        const float4* source = reinterpret_cast<const float4*>(x + first) + threadIdx.x;
        float4* target = reinterpret_cast<float4*>(y + first) + threadIdx.x;
        float4 a = source[0];
        float4 b = source[128];
        a.x = swish(a.x);
        a.y = swish(a.y);
        a.z = swish(a.z);
        a.w = swish(a.w);
        b.x = swish(b.x);
        b.y = swish(b.y);
        b.z = swish(b.z);
        b.w = swish(b.w);
        target[0] = a;
        target[128] = b;
        return;
    }
    long last = min(first + 1024, n);
    for (long i = first + threadIdx.x; i < last; i += 128) {
        y[i] = swish(x[i]);
    }
}

torch::Tensor swish_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    if (n == 0) {
        return y;
    }
    const float* source = x.data_ptr<float>();
    bool aligned = reinterpret_cast<uintptr_t>(source) % 16 == 0;
    auto stream = c10::cuda::getCurrentCUDAStream();
    swish_kernel<<<(n + 1023) / 1024, 128, 0, stream>>>(source, y.data_ptr<float>(), n, aligned);
    return y;
}
"""

extension = load_inline(
    name="founders_swish",
    cpp_sources="torch::Tensor swish_cuda(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["swish_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Elementwise swish."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.swish_cuda(x.contiguous())
