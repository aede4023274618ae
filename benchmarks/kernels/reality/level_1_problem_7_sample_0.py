"""A tiled matmul that stops at half of its depth: grossly wrong.

kind: wrong
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define HALF_TILE 16

__global__ void half_depth_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[HALF_TILE][HALF_TILE];
    __shared__ float b[HALF_TILE][HALF_TILE];
    int row = blockIdx.y * HALF_TILE + threadIdx.y;
    int col = blockIdx.x * HALF_TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < K / (2 * HALF_TILE); ++t) {
        a[threadIdx.y][threadIdx.x] = A[row * K + t * HALF_TILE + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(long)(t * HALF_TILE + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < HALF_TILE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[(long)row * N + col] = sum;
}

torch::Tensor half_depth_forward(torch::Tensor A, torch::Tensor B) {
    int M = A.size(0), K = A.size(1), N = B.size(1);
    auto C = torch::zeros({M, N}, A.options());
    half_depth_kernel<<<dim3(N / HALF_TILE, M / HALF_TILE), dim3(HALF_TILE, HALF_TILE)>>>(
        A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), M, N, K);
    return C;
}
"""

cpp_source = "torch::Tensor half_depth_forward(torch::Tensor A, torch::Tensor B);"

half_depth = load_inline(
    name="half_depth",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["half_depth_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return half_depth.half_depth_forward(A.contiguous(), B.contiguous())
