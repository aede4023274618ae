"""The tiled matmul of every tutorial: 16 x 16 tiles in shared memory, one output a thread.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

#define TILED_MATMUL_TILE 16

__global__ void tiled_matmul_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a_tile[TILED_MATMUL_TILE][TILED_MATMUL_TILE];
    __shared__ float b_tile[TILED_MATMUL_TILE][TILED_MATMUL_TILE];
    int row = blockIdx.y * TILED_MATMUL_TILE + threadIdx.y;
    int col = blockIdx.x * TILED_MATMUL_TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < (K + TILED_MATMUL_TILE - 1) / TILED_MATMUL_TILE; ++t) {
        int a_col = t * TILED_MATMUL_TILE + threadIdx.x;
        int b_row = t * TILED_MATMUL_TILE + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] = (row < M && a_col < K) ? A[(long)row * K + a_col] : 0.0f;
        b_tile[threadIdx.y][threadIdx.x] = (b_row < K && col < N) ? B[(long)b_row * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILED_MATMUL_TILE; ++k) {
            sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < M && col < N) {
        C[(long)row * N + col] = sum;
    }
}

torch::Tensor tiled_matmul_cuda(torch::Tensor A, torch::Tensor B) {
    int M = A.size(0);
    int K = A.size(1);
    int N = B.size(1);
    auto C = torch::zeros({M, N}, A.options());
    dim3 threads(TILED_MATMUL_TILE, TILED_MATMUL_TILE);
    dim3 blocks((N + TILED_MATMUL_TILE - 1) / TILED_MATMUL_TILE, (M + TILED_MATMUL_TILE - 1) / TILED_MATMUL_TILE);
    tiled_matmul_kernel<<<blocks, threads>>>(
        A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), M, N, K);
    return C;
}
"""

cpp_source = "torch::Tensor tiled_matmul_cuda(torch::Tensor A, torch::Tensor B);"

tiled_matmul = load_inline(
    name="tiled_matmul",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["tiled_matmul_cuda"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return tiled_matmul.tiled_matmul_cuda(A.contiguous(), B.contiguous())
