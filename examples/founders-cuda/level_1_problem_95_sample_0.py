"""Cross-entropy with one read of the logits: a block holds its row in registers.

Maximum, sum of exponentials and the target's logit come from that read; a last small block takes the mean of the
rows' losses in double precision.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

template <typename T>
__device__ __forceinline__ T block_sum(T value) {
    __shared__ T warps[32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : T(0);
    if (threadIdx.x < 32) {
        for (int offset = 16; offset > 0; offset /= 2) {
            value += __shfl_down_sync(0xffffffff, value, offset);
        }
    }
    return value;
}

const int THREADS = 256;

__device__ __forceinline__ float block_max(float value) {
    __shared__ float warps[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = warps[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) {
        value = fmaxf(value, warps[warp]);
    }
    return value;
}

// A block takes one row; up to 4096 logits stay in registers, longer rows are read again.
__global__ void __launch_bounds__(THREADS) row_kernel(const float* __restrict__ x, const long* __restrict__ targets,
                                                      float* __restrict__ losses, int columns) {
    const float* row = x + (long)blockIdx.x * columns;
    float kept[16];
    float peak = -INFINITY;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        int i = j * THREADS + threadIdx.x;
        kept[j] = i < columns ? __ldcs(row + i) : -INFINITY;
    }
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        peak = fmaxf(peak, kept[j]);
    }
    for (int i = 16 * THREADS + threadIdx.x; i < columns; i += THREADS) {
        peak = fmaxf(peak, row[i]);
    }
    peak = block_max(peak);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        sum += __expf(kept[j] - peak);
    }
    for (int i = 16 * THREADS + threadIdx.x; i < columns; i += THREADS) {
        sum += __expf(row[i] - peak);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        losses[blockIdx.x] = logf(sum) + (peak - row[targets[blockIdx.x]]);
    }
}

// One block adds the partial sums in double precision and in a fixed order.
__global__ void mean_kernel(const float* __restrict__ partials, float* __restrict__ y, int n, double count) {
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += partials[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *y = (float)(sum / count);
    }
}

torch::Tensor cross_entropy_cuda(torch::Tensor x, torch::Tensor targets) {
    int rows = (int)x.size(0);
    auto losses = torch::empty({rows}, x.options());
    auto y = torch::empty({}, x.options());
    auto stream = c10::cuda::getCurrentCUDAStream();
    const long* classes = reinterpret_cast<const long*>(targets.data_ptr<int64_t>());
    row_kernel<<<rows, THREADS, 0, stream>>>(x.data_ptr<float>(), classes, losses.data_ptr<float>(), (int)x.size(1));
    mean_kernel<<<1, THREADS, 0, stream>>>(losses.data_ptr<float>(), y.data_ptr<float>(), rows, (double)rows);
    return y;
}
"""

extension = load_inline(
    name="founders_cross_entropy",
    cpp_sources="torch::Tensor cross_entropy_cuda(torch::Tensor x, torch::Tensor targets);",
    cuda_sources=CUDA_SOURCE,
    functions=["cross_entropy_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Mean cross-entropy loss between logits and class indices."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return extension.cross_entropy_cuda(predictions.contiguous(), targets.contiguous())
