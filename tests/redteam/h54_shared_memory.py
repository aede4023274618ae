"""227 KB of shared memory."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/cuda/CUDAContext.h>
__global__ void relu(const float* x, float* y, long n) {
    extern __shared__ float room[];
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) {
        room[threadIdx.x * 50] = x[i];
        y[i] = room[threadIdx.x * 50] < 0 ? 0 : room[threadIdx.x * 50];
    }
}
torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int bytes = 227 * 1024;
    cudaFuncSetAttribute(relu, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    relu<<<132, 1024, bytes, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
extension = load_inline(
    name="room", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
