import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

// One pass: the sum never goes back to memory.
__global__ void bias_gelu_kernel(const float* x, const float* bias, float* out, int64_t n, int features) {
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) {
        float value = x[i] + bias[i % features];
        out[i] = 0.5f * value * (1.0f + erff(value * 0.70710678118654752f));
    }
}

torch::Tensor bias_gelu(torch::Tensor x, torch::Tensor bias) {
    auto out = torch::empty_like(x);
    int64_t n = x.numel();
    const int threads = 256;
    const int64_t blocks = (n + threads - 1) / threads;
    bias_gelu_kernel<<<blocks, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), n, bias.numel());
    return out;
}
"""

module = load_inline(
    name="example_bias_gelu",
    cpp_sources="torch::Tensor bias_gelu(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=cuda_source,
    functions=["bias_gelu"],
)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return module.bias_gelu(x.contiguous(), self.bias)
