"""A naive matmul whose threadIdx.x runs over rows: neighbours read far apart, a hundred times too slow.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void symmetric_matmul_kernel(const float* A, const float* B, float* C, int N) {
    // x over rows, y over columns, as in the mathematics
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < N && j < N) {
        float acc = 0.0f;
        for (int k = 0; k < N; k++) {
            acc += A[i * N + k] * B[k * N + j];
        }
        C[i * N + j] = acc;
    }
}

torch::Tensor symmetric_matmul_cuda(torch::Tensor A, torch::Tensor B) {
    TORCH_CHECK(A.is_cuda() && B.is_cuda(), "inputs must be on the GPU");
    const int N = A.size(0);
    auto C = torch::zeros_like(A);
    const dim3 block(32, 16);
    const dim3 grid((N + block.x - 1) / block.x, (N + block.y - 1) / block.y);
    symmetric_matmul_kernel<<<grid, block>>>(
        A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), N);
    return C;
}
"""

cpp_source = "torch::Tensor symmetric_matmul_cuda(torch::Tensor A, torch::Tensor B);"

symmetric_matmul = load_inline(
    name="symmetric_matmul",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["symmetric_matmul_cuda"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, A, B):
        return symmetric_matmul.symmetric_matmul_cuda(A.contiguous(), B.contiguous())
