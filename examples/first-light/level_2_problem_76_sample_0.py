"""Linear layer, bias and ReLU: cuBLAS for the product, one CUDA kernel that adds and clips in place."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float finish(float x, float bias) {
    float value = x + bias;
    return value < 0.0f ? 0.0f : value;
}

__global__ void epilogue_kernel(float* __restrict__ x, const float* __restrict__ bias, long vectors,
                                int vectors_per_row) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors) {
        return;
    }
    float4* x4 = reinterpret_cast<float4*>(x);
    float4 v = x4[i];
    float4 b = __ldg(reinterpret_cast<const float4*>(bias) + i % vectors_per_row);
    v.x = finish(v.x, b.x);
    v.y = finish(v.y, b.y);
    v.z = finish(v.z, b.z);
    v.w = finish(v.w, b.w);
    x4[i] = v;
}

void epilogue_cuda(torch::Tensor x, torch::Tensor bias) {
    long vectors = x.numel() / 4;
    TORCH_CHECK(x.size(1) % 4 == 0, "the number of output features must be a multiple of 4");
    epilogue_kernel<<<(vectors + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), bias.data_ptr<float>(), vectors, x.size(1) / 4);
}
"""

extension = load_inline(
    name="first_light_bias_relu",
    cpp_sources="void epilogue_cuda(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=CUDA_SOURCE,
    functions=["epilogue_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Linear layer without bias, plus a bias, then ReLU."""

    def __init__(self, in_features: int, out_features: int, bias_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features, bias=False)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = torch.mm(x, self.gemm.weight.t())
        extension.epilogue_cuda(product, self.bias)
        return product
