"""Linear layer, scaling and residual: one pass in place over the product.

Eager PyTorch copies the product, scales it and adds it in three kernels. cuBLAS leaves the bias to this pass, where
a thread keeps that of four columns in registers.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float finish(float x, float factor) {
    return x * factor + x;
}

__global__ void __launch_bounds__(256) epilogue_kernel(float* __restrict__ y, const float* __restrict__ bias,
                                                       long rows, int features, bool vectors, float factor) {
    int column = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (column >= features) {
        return;
    }
    if (vectors) {
        float4 b = *reinterpret_cast<const float4*>(bias + column);
        for (long row = blockIdx.y; row < rows; row += gridDim.y) {
            float4* place = reinterpret_cast<float4*>(y + row * features + column);
            float4 v = *place;
            v.x = finish(v.x + b.x, factor);
            v.y = finish(v.y + b.y, factor);
            v.z = finish(v.z + b.z, factor);
            v.w = finish(v.w + b.w, factor);
            *place = v;
        }
        return;
    }
    int end = min(column + 4, features);
    for (long row = blockIdx.y; row < rows; row += gridDim.y) {
        for (int c = column; c < end; ++c) {
            y[row * features + c] = finish(y[row * features + c] + bias[c], factor);
        }
    }
}

void scaled_residual_cuda(torch::Tensor y, torch::Tensor bias, double factor) {
    long rows = y.size(0);
    int features = (int)y.size(1);
    float* values = y.data_ptr<float>();
    bool vectors = features % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0 &&
                   reinterpret_cast<uintptr_t>(bias.data_ptr<float>()) % 16 == 0;
    dim3 grid((features + 1023) / 1024, (unsigned)std::min(rows, (long)4096));
    epilogue_kernel<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values, bias.data_ptr<float>(), rows,
                                                                         features, vectors, (float)factor);
}
"""

extension = load_inline(
    name="founders_scaled_residual",
    cpp_sources="void scaled_residual_cuda(torch::Tensor y, torch::Tensor bias, double factor);",
    cuda_sources=CUDA_SOURCE,
    functions=["scaled_residual_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Linear layer, scaled, plus the unscaled result."""

    def __init__(self, in_features: int, out_features: int, scaling_factor: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.mm(x, self.matmul.weight.t())
        extension.scaled_residual_cuda(y, self.matmul.bias, self.scaling_factor)
        return y
