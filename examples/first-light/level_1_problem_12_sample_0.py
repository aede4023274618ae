"""Rows scaled by a vector, in CUDA: a diagonal matrix product that reads each element once.

Each thread moves 16 bytes a step; the row's factor is read through the cache, once per 16 bytes.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scale_rows_vector(const float* __restrict__ factors, const float4* __restrict__ matrix,
                                  float4* __restrict__ result, long total, int vectors_per_row) {
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        float factor = __ldg(factors + i / vectors_per_row);
        float4 value = matrix[i];
        value.x *= factor;
        value.y *= factor;
        value.z *= factor;
        value.w *= factor;
        result[i] = value;
    }
}

__global__ void scale_rows(const float* __restrict__ factors, const float* __restrict__ matrix,
                           float* __restrict__ result, long total, int columns) {
    long stride = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        result[i] = matrix[i] * __ldg(factors + i / columns);
    }
}

torch::Tensor scale_rows_cuda(torch::Tensor factors, torch::Tensor matrix) {
    auto result = torch::empty_like(matrix);
    auto stream = c10::cuda::getCurrentCUDAStream();
    long total = matrix.numel();
    int columns = matrix.size(1);
    if (columns % 4 == 0) {
        long vectors = total / 4;
        int blocks = (int)std::min((vectors + 255) / 256, (long)8192);
        scale_rows_vector<<<blocks, 256, 0, stream>>>(
            factors.data_ptr<float>(), reinterpret_cast<const float4*>(matrix.data_ptr<float>()),
            reinterpret_cast<float4*>(result.data_ptr<float>()), vectors, columns / 4);
    } else {
        int blocks = (int)std::min((total + 255) / 256, (long)8192);
        scale_rows<<<blocks, 256, 0, stream>>>(factors.data_ptr<float>(), matrix.data_ptr<float>(),
                                               result.data_ptr<float>(), total, columns);
    }
    return result;
}
"""

extension = load_inline(
    name="first_light_scale_rows",
    cpp_sources="torch::Tensor scale_rows_cuda(torch::Tensor factors, torch::Tensor matrix);",
    cuda_sources=CUDA_SOURCE,
    functions=["scale_rows_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Scale the rows of a matrix by a vector."""

    def forward(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return extension.scale_rows_cuda(A.contiguous(), B.contiguous())
