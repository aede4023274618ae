"""Linear layer, scaling and residual: cuBLAS for the product, one CUDA kernel for all the rest.

The product is overwritten in place with (x + bias) * scale + (x + bias); eager PyTorch copies it, scales it
and adds it in three kernels.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float finish(float x, float bias, float scale) {
    float value = x + bias;
    return value * scale + value;
}

__global__ void epilogue_kernel(float* __restrict__ x, const float* __restrict__ bias, long vectors,
                                int vectors_per_row, float scale) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors) {
        return;
    }
    float4* x4 = reinterpret_cast<float4*>(x);
    float4 v = x4[i];
    float4 b = __ldg(reinterpret_cast<const float4*>(bias) + i % vectors_per_row);
    v.x = finish(v.x, b.x, scale);
    v.y = finish(v.y, b.y, scale);
    v.z = finish(v.z, b.z, scale);
    v.w = finish(v.w, b.w, scale);
    x4[i] = v;
}

void epilogue_cuda(torch::Tensor x, torch::Tensor bias, double scale) {
    long vectors = x.numel() / 4;
    TORCH_CHECK(x.size(1) % 4 == 0, "the number of output features must be a multiple of 4");
    epilogue_kernel<<<(vectors + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), vectors, x.size(1) / 4, (float)scale);
}
"""

extension = load_inline(
    name="first_light_scaled_residual",
    cpp_sources="void epilogue_cuda(torch::Tensor x, torch::Tensor bias, double scale);",
    cuda_sources=CUDA_SOURCE,
    functions=["epilogue_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Linear layer, scaled, plus the unscaled result."""

    def __init__(self, in_features: int, out_features: int, scaling_factor: float) -> None:
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x, self.matmul.weight.t())
        extension.epilogue_cuda(product, self.matmul.bias, self.scaling_factor)
        return product
