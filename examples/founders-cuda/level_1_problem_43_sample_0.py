"""Dilated max pooling over volumes, all 27 loads of a window in flight at once.

No indices are written, which PyTorch's kernel always does; neighbouring threads share their rows through the L1 cache.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float larger(float best, float value) {
    return value > best || value != value ? value : best;
}

// A block makes 256 neighbouring pixels of one output slice. WINDOW is the edge of the window, 0 where it is not known
// when this is compiled.
template <int WINDOW>
__global__ void __launch_bounds__(256) pool_kernel(const float* __restrict__ x, float* __restrict__ y, int3 size,
                                                   int3 out, int edge, int stride, int padding, int dilation) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= out.y * out.x) {
        return;
    }
    int window = WINDOW > 0 ? WINDOW : edge;
    int row = i / out.x * stride - padding;
    int column = i % out.x * stride - padding;
    int slice = blockIdx.y * stride - padding;
    const float* source = x + (long)blockIdx.z * size.z * size.y * size.x;
    float result = -INFINITY;
#pragma unroll
    for (int a = 0; a < window; ++a) {
        int z = slice + a * dilation;
#pragma unroll
        for (int b = 0; b < window; ++b) {
            int v = row + b * dilation;
            bool inside = z >= 0 && z < size.z && v >= 0 && v < size.y;
#pragma unroll
            for (int c = 0; c < window; ++c) {
                int u = column + c * dilation;
                if (inside && u >= 0 && u < size.x) {
                    result = larger(result, __ldg(source + ((long)z * size.y + v) * size.x + u));
                }
            }
        }
    }
    y[((long)blockIdx.z * out.z + blockIdx.y) * out.y * out.x + i] = result;
}

int outputs(long size, long window, long stride, long padding, long dilation, bool ceil_mode) {
    long room = size + 2 * padding - dilation * (window - 1) - 1;
    long count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    // The last window must begin inside the input or its left padding.
    return (int)(ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count);
}

torch::Tensor max_pool_3d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding, int64_t dilation,
                               bool ceil_mode) {
    int3 size = make_int3((int)x.size(4), (int)x.size(3), (int)x.size(2));
    int3 out = make_int3(outputs(size.x, window, stride, padding, dilation, ceil_mode),
                         outputs(size.y, window, stride, padding, dilation, ceil_mode),
                         outputs(size.z, window, stride, padding, dilation, ceil_mode));
    auto y = torch::empty({x.size(0), x.size(1), (long)out.z, (long)out.y, (long)out.x}, x.options());
    unsigned volumes = (unsigned)(x.size(0) * x.size(1));
    TORCH_CHECK(volumes <= 65535 && out.z <= 65535, "too many volumes or slices for one grid");
    dim3 grid((out.y * out.x + 255) / 256, out.z, volumes);
    auto stream = c10::cuda::getCurrentCUDAStream();
    if (window == 3) {
        pool_kernel<3><<<grid, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), size, out, 3, (int)stride,
                                                 (int)padding, (int)dilation);
    } else {
        pool_kernel<0><<<grid, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), size, out, (int)window,
                                                 (int)stride, (int)padding, (int)dilation);
    }
    return y;
}
"""

extension = load_inline(
    name="founders_max_pool_3d",
    cpp_sources="torch::Tensor max_pool_3d_cuda(torch::Tensor x, int64_t window, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode);",
    cuda_sources=CUDA_SOURCE,
    functions=["max_pool_3d_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Max pooling over volumes, without indices."""

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
        dilation: int = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.maxpool = nn.MaxPool3d(
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = self.maxpool
        return extension.max_pool_3d_cuda(
            x.contiguous(), pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode
        )
