"""Dilated max pooling over rows.

A block stages the inputs of 1024 outputs in shared memory, so that each is read about once from device memory, and writes
no indices, which PyTorch's kernel always does.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

const int OUTPUTS = 1024;  // of a block

__device__ __forceinline__ float larger(float best, float value) {
    return value > best || value != value ? value : best;
}

// A block stages the inputs of its outputs in shared memory, with the padding around them.
__global__ void __launch_bounds__(256) pool_kernel(const float* __restrict__ x, float* __restrict__ y, int length,
                                                   int out_length, int tiles, int window, int stride, int padding, int dilation) {
    extern __shared__ float staged[];
    long row = blockIdx.x / tiles;
    int first = (int)(blockIdx.x % tiles) * OUTPUTS;
    int outputs = min(OUTPUTS, out_length - first);
    int begin = first * stride - padding;
    int span = (outputs - 1) * stride + dilation * (window - 1) + 1;
    const float* source = x + row * length;
#pragma unroll 4
    for (int i = threadIdx.x; i < span; i += 256) {
        int place = begin + i;
        staged[i] = place >= 0 && place < length ? __ldg(source + place) : -INFINITY;
    }
    __syncthreads();
    float* target = y + row * out_length + first;
    for (int i = threadIdx.x; i < outputs; i += 256) {
        float result = -INFINITY;
#pragma unroll 8
        for (int tap = 0; tap < window; ++tap) {
            result = larger(result, staged[i * stride + tap * dilation]);
        }
        __stcs(target + i, result);
    }
}

torch::Tensor max_pool_1d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding, int64_t dilation) {
    int length = (int)x.size(2);
    int reach = (int)(dilation * (window - 1) + 1);
    int out_length = (int)((length + 2 * padding - reach) / stride + 1);
    long rows = x.size(0) * x.size(1);
    auto y = torch::empty({x.size(0), x.size(1), (long)out_length}, x.options());
    int tiles = (out_length + OUTPUTS - 1) / OUTPUTS;
    int bytes = (int)((OUTPUTS - 1) * stride + reach) * (int)sizeof(float);
    cudaFuncSetAttribute(pool_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    pool_kernel<<<rows * tiles, 256, bytes, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), length, out_length, tiles, (int)window, (int)stride, (int)padding, (int)dilation);
    return y;
}
"""

extension = load_inline(
    name="founders_max_pool_1d",
    cpp_sources="torch::Tensor max_pool_1d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding, int64_t dilation);",
    cuda_sources=CUDA_SOURCE,
    functions=["max_pool_1d_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Max pooling over the last dimension, without indices."""

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
        dilation: int = 1,
        return_indices: bool = False,
    ) -> None:
        super().__init__()
        self.maxpool = nn.MaxPool1d(
            kernel_size, stride=stride, padding=padding, dilation=dilation, return_indices=return_indices
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = self.maxpool
        return extension.max_pool_1d_cuda(
            x.contiguous(), pool.kernel_size, pool.stride, pool.padding, pool.dilation
        )
