"""GELU by the tanh approximation in CUDA, compiled by load_inline: one thread an element, one pass.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__global__ void new_gelu_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
        y[i] = v / (1.0f + expf(-2.0f * u));
    }
}

torch::Tensor new_gelu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int64_t n = x.numel();
    auto stream = c10::cuda::getCurrentCUDAStream();  // the evaluator's stream, not the default one
    new_gelu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

extension = load_inline(
    name="worked_new_gelu",
    cpp_sources="torch::Tensor new_gelu(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["new_gelu"],
)


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return extension.new_gelu(x.contiguous())
