"""Average pooling over planes, reading each row as a whole.

A window eleven wide, taken thread by thread, would spread the loads of a warp over eleven cache lines. Here a block adds
up the rows of one line of outputs first, coalesced, and only then the neighbours in shared memory.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

// A block makes one row of the output. Its threads add up whole columns of the input first, 16 bytes at a
// time and coalesced, and leave the sums in shared memory; then each output adds its few neighbouring sums.
__global__ void __launch_bounds__(256) pool_kernel(const float* __restrict__ x, float* __restrict__ y, int height,
                                                   int width, int out_height, int out_width, int window, int stride,
                                                   int padding, bool vectors) {
    extern __shared__ float4 shared[];
    float* sums = reinterpret_cast<float*>(shared);
    long plane = blockIdx.x / out_height;
    int out_row = (int)(blockIdx.x % out_height);
    const float* source = x + plane * height * width;
    float* target = y + (long)blockIdx.x * out_width;
    int first = max(out_row * stride - padding, 0);
    int last = min(out_row * stride - padding + window, height);
    if (vectors) {
        for (int i = threadIdx.x; i < width / 4; i += 256) {
            float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 11
            for (int row = first; row < last; ++row) {
                float4 v = __ldg(reinterpret_cast<const float4*>(source + (long)row * width) + i);
                sum.x += v.x;
                sum.y += v.y;
                sum.z += v.z;
                sum.w += v.w;
            }
            reinterpret_cast<float4*>(sums)[i] = sum;
        }
    } else {
        for (int i = threadIdx.x; i < width; i += 256) {
            float sum = 0.0f;
#pragma unroll 11
            for (int row = first; row < last; ++row) {
                sum += (source + (long)row * width)[i];
            }
            sums[i] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < out_width; i += 256) {
        int begin = max(i * stride - padding, 0);
        int end = min(i * stride - padding + window, width);
        float result = 0.0f;
        for (int place = begin; place < end; ++place) {
            result += sums[place];
        }
        target[i] = result / (float)(window * window);
    }
}

torch::Tensor average_pool_2d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding) {
    int height = (int)x.size(2);
    int width = (int)x.size(3);
    int out_height = (int)((height + 2 * padding - window) / stride + 1);
    int out_width = (int)((width + 2 * padding - window) / stride + 1);
    auto y = torch::empty({x.size(0), x.size(1), (long)out_height, (long)out_width}, x.options());
    const float* source = x.data_ptr<float>();
    bool vectors = width % 4 == 0 && reinterpret_cast<uintptr_t>(source) % 16 == 0;
    int bytes = (width + 3) / 4 * 16;
    long blocks = x.size(0) * x.size(1) * out_height;
    cudaFuncSetAttribute(pool_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    pool_kernel<<<blocks, 256, bytes, c10::cuda::getCurrentCUDAStream()>>>(
        source, y.data_ptr<float>(), height, width, out_height, out_width, (int)window, (int)stride, (int)padding,
        vectors);
    return y;
}
"""

extension = load_inline(
    name="founders_average_pool_2d",
    cpp_sources="torch::Tensor average_pool_2d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding);",
    cuda_sources=CUDA_SOURCE,
    functions=["average_pool_2d_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Average pooling over planes; the padding counts."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0) -> None:
        super().__init__()
        self.avg_pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = self.avg_pool
        return extension.average_pool_2d_cuda(x.contiguous(), pool.kernel_size, pool.stride, pool.padding)
