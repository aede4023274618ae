"""Linear layer and Mish twice: one pass in place over the product.

cuBLAS makes the product without its bias; a thread then keeps the bias of four columns in registers and
finishes them down its rows, in place.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

// tanh(log(1 + e)) equals n / (n + 2) with n = e * (e + 2): one exponential instead of three functions.
__device__ __forceinline__ float mish(float x) {
    float e = __expf(fminf(x, 20.0f));
    float n = e * (e + 2.0f);
    return x > 20.0f ? x : x * __fdividef(n, n + 2.0f);
}

__device__ __forceinline__ float finish(float x) {
    return mish(mish(x));
}

__global__ void __launch_bounds__(256) epilogue_kernel(float* __restrict__ y, const float* __restrict__ bias,
                                                       long rows, int features, bool vectors) {
    int column = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (column >= features) {
        return;
    }
    if (vectors) {
        float4 b = *reinterpret_cast<const float4*>(bias + column);
        for (long row = blockIdx.y; row < rows; row += gridDim.y) {
            float4* place = reinterpret_cast<float4*>(y + row * features + column);
            float4 v = *place;
            v.x = finish(v.x + b.x);
            v.y = finish(v.y + b.y);
            v.z = finish(v.z + b.z);
            v.w = finish(v.w + b.w);
            *place = v;
        }
        return;
    }
    int end = min(column + 4, features);
    for (long row = blockIdx.y; row < rows; row += gridDim.y) {
        for (int c = column; c < end; ++c) {
            y[row * features + c] = finish(y[row * features + c] + bias[c]);
        }
    }
}

void double_mish_cuda(torch::Tensor y, torch::Tensor bias) {
    long rows = y.size(0);
    int features = (int)y.size(1);
    float* values = y.data_ptr<float>();
    bool vectors = features % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0 &&
                   reinterpret_cast<uintptr_t>(bias.data_ptr<float>()) % 16 == 0;
    dim3 grid((features + 1023) / 1024, (unsigned)std::min(rows, (long)4096));
    epilogue_kernel<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values, bias.data_ptr<float>(), rows,
                                                                         features, vectors);
}
"""

extension = load_inline(
    name="founders_double_mish",
    cpp_sources="void double_mish_cuda(torch::Tensor y, torch::Tensor bias);",
    cuda_sources=CUDA_SOURCE,
    functions=["double_mish_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Linear layer, Mish twice."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, self.linear.weight.t())
        extension.double_mish_cuda(y, self.linear.bias)
        return y
