"""Convolution, tanh, scaling, bias and max pooling: one CUDA pass after cuDNN.

The result of the convolution is read once, and only the pooled planes are written; the convolution's bias is part of
the pass.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float before(float x, float bias, float factor) {
    return tanhf(x) * factor + bias;
}

// A thread makes one pixel of the pooled plane; windows do not overlap, so every value is read once.
__global__ void __launch_bounds__(256) pool_kernel(const float* __restrict__ x, float* __restrict__ y,
                                                   const float* __restrict__ conv_bias, int channels, int width,
                                                   int pixels, int out_width, int out_pixels, int window, int tiles, const float* __restrict__ biases, float factor) {
    long plane = blockIdx.x / tiles;
    int i = (int)(blockIdx.x % tiles) * 256 + threadIdx.x;
    if (i >= out_pixels) {
        return;
    }
    int channel = (int)(plane % channels);
    float b = conv_bias[channel];
    float bias = biases[channel];
    const float* corner = x + plane * pixels + (long)(i / out_width) * window * width + i % out_width * window;
    float result = -INFINITY;
    for (int row = 0; row < window; ++row) {
#pragma unroll 4
        for (int column = 0; column < window; ++column) {
            float v = before(corner[row * width + column] + b, bias, factor);
            result = v > result || v != v ? v : result;
        }
    }
    y[plane * out_pixels + i] = result;
}

torch::Tensor conv_tanh_scale_pool_cuda(torch::Tensor x, torch::Tensor conv_bias, int64_t window, torch::Tensor biases, double factor) {
    int channels = (int)x.size(1);
    int width = (int)x.size(3);
    int pixels = (int)x.size(2) * width;
    long out_height = x.size(2) / window;
    long out_width = width / window;
    auto y = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
    int out_pixels = (int)(out_height * out_width);
    int tiles = (out_pixels + 255) / 256;
    pool_kernel<<<x.size(0) * channels * tiles, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), conv_bias.data_ptr<float>(), channels, width, pixels, (int)out_width,
        out_pixels, (int)window, tiles, biases.data_ptr<float>(), (float)factor);
    return y;
}
"""

extension = load_inline(
    name="founders_conv_tanh_scale_pool",
    cpp_sources="torch::Tensor conv_tanh_scale_pool_cuda(torch::Tensor x, torch::Tensor conv_bias, int64_t window, torch::Tensor biases, double factor);",
    cuda_sources=CUDA_SOURCE,
    functions=["conv_tanh_scale_pool_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Convolution, tanh, scaling, learned bias, max pooling."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        scaling_factor: float,
        bias_shape: tuple[int, ...],
        pool_kernel_size: int,
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scaling_factor = scaling_factor
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.max_pool = nn.MaxPool2d(pool_kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        y = F.conv2d(x, conv.weight, None, conv.stride, conv.padding).contiguous()
        return extension.conv_tanh_scale_pool_cuda(
            y, conv.bias, self.max_pool.kernel_size, self.bias, self.scaling_factor
        )
