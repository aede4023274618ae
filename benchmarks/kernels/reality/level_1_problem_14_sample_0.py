"""A grid-wide barrier by a counter, with more blocks than the device holds: the first wait for the last for ever.

kind: hangs
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void barrier_matmul_kernel(
    const float* A, const float* B, float* C, int N, volatile int* arrived, int* counter) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < N && col < N) C[row * N + col] = 0.0f;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        atomicAdd(counter, 1);
        while (*arrived < (int)(gridDim.x * gridDim.y)) {
        }
    }
    __syncthreads();
    if (row < N && col < N && row <= col) {
        float sum = 0.0f;
        for (int k = row; k <= col; ++k) sum += A[row * N + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}

torch::Tensor barrier_matmul_forward(torch::Tensor A, torch::Tensor B) {
    int N = A.size(0);
    auto C = torch::empty_like(A);
    auto counter = torch::zeros({1}, A.options().dtype(torch::kInt32));
    dim3 block(16, 16);
    dim3 grid((N + 15) / 16, (N + 15) / 16);
    barrier_matmul_kernel<<<grid, block>>>(
        A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), N,
        counter.data_ptr<int>(), counter.data_ptr<int>());
    return C;
}
"""

cpp_source = "torch::Tensor barrier_matmul_forward(torch::Tensor A, torch::Tensor B);"

barrier_matmul = load_inline(
    name="barrier_matmul",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["barrier_matmul_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return barrier_matmul.barrier_matmul_forward(A.contiguous(), B.contiguous())
