"""Linear layer, learned sum, swish, tanh, GELU and hard tanh: one pass in place over the product.

cuBLAS makes the product without its bias; a thread then keeps the bias of four columns in registers and
finishes them down its rows, in place.
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

__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

__device__ __forceinline__ float clamp(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

__device__ __forceinline__ float finish(float x, float addend) {
    x += addend;
    x = tanhf(x * sigmoid(x));
    return clamp(gelu(x), -1.0f, 1.0f);
}

__global__ void __launch_bounds__(256) epilogue_kernel(float* __restrict__ y, const float* __restrict__ bias,
                                                       long rows, int features, bool vectors,
                                                       const float* __restrict__ addends) {
    int column = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (column >= features) {
        return;
    }
    if (vectors) {
        float4 b = *reinterpret_cast<const float4*>(bias + column);
        float4 av = *reinterpret_cast<const float4*>(addends + column);
        for (long row = blockIdx.y; row < rows; row += gridDim.y) {
            float4* place = reinterpret_cast<float4*>(y + row * features + column);
            float4 v = *place;
            v.x = finish(v.x + b.x, av.x);
            v.y = finish(v.y + b.y, av.y);
            v.z = finish(v.z + b.z, av.z);
            v.w = finish(v.w + b.w, av.w);
            *place = v;
        }
        return;
    }
    int end = min(column + 4, features);
    for (long row = blockIdx.y; row < rows; row += gridDim.y) {
        for (int c = column; c < end; ++c) {
            y[row * features + c] = finish(y[row * features + c] + bias[c], addends[c]);
        }
    }
}

void activation_chain_cuda(torch::Tensor y, torch::Tensor bias, torch::Tensor addends) {
    long rows = y.size(0);
    int features = (int)y.size(1);
    float* values = y.data_ptr<float>();
    bool vectors = features % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0 &&
                   reinterpret_cast<uintptr_t>(bias.data_ptr<float>()) % 16 == 0 &&
                   reinterpret_cast<uintptr_t>(addends.data_ptr<float>()) % 16 == 0;
    dim3 grid((features + 1023) / 1024, (unsigned)std::min(rows, (long)4096));
    epilogue_kernel<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values, bias.data_ptr<float>(), rows,
                                                                         features, vectors, addends.data_ptr<float>());
}
"""

extension = load_inline(
    name="founders_activation_chain",
    cpp_sources="void activation_chain_cuda(torch::Tensor y, torch::Tensor bias, torch::Tensor addends);",
    cuda_sources=CUDA_SOURCE,
    functions=["activation_chain_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Linear layer, learned sum, swish, tanh, GELU, hard tanh."""

    def __init__(self, in_features: int, out_features: int, add_value_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, self.matmul.weight.t())
        extension.activation_chain_cuda(y, self.matmul.bias, self.add_value)
        return y
