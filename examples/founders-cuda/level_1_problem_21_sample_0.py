"""Sigmoid from one exponential and one approximate division, two 16-byte loads in flight per thread.

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

__global__ void __launch_bounds__(128) sigmoid_kernel(const float* x, float* y, long n, bool aligned) {
    long first = (long)blockIdx.x * 1024;
    if (aligned && n - first >= 1024) {
        const float4* source = reinterpret_cast<const float4*>(x + first) + threadIdx.x;
        float4* target = reinterpret_cast<float4*>(y + first) + threadIdx.x;
        float4 a = source[0];
        float4 b = source[128];
        a.x = sigmoid(a.x);
        a.y = sigmoid(a.y);
        a.z = sigmoid(a.z);
        a.w = sigmoid(a.w);
        b.x = sigmoid(b.x);
        b.y = sigmoid(b.y);
        b.z = sigmoid(b.z);
        b.w = sigmoid(b.w);
        target[0] = a;
        target[128] = b;
        return;
    }
    long last = min(first + 1024, n);
    for (long i = first + threadIdx.x; i < last; i += 128) {
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
    bool aligned = reinterpret_cast<uintptr_t>(source) % 16 == 0;
    auto stream = c10::cuda::getCurrentCUDAStream();
    sigmoid_kernel<<<(n + 1023) / 1024, 128, 0, stream>>>(source, y.data_ptr<float>(), n, aligned);
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
