"""Layer norm with one block of 256 threads a sample: 16 blocks for the whole device.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void sample_norm_kernel(
    const float* x, const float* weight, const float* bias, float* y, long width, float eps) {
    __shared__ float sums[256];
    __shared__ float squares[256];
    long row = blockIdx.x;
    const float* in = x + row * width;
    float* out = y + row * width;
    float sum = 0.0f, square = 0.0f;
    for (long i = threadIdx.x; i < width; i += blockDim.x) {
        float v = in[i];
        sum += v;
        square += v * v;
    }
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            sums[threadIdx.x] += sums[threadIdx.x + step];
            squares[threadIdx.x] += squares[threadIdx.x + step];
        }
        __syncthreads();
    }
    float mean = sums[0] / width;
    float inverse = rsqrtf(squares[0] / width - mean * mean + eps);
    for (long i = threadIdx.x; i < width; i += blockDim.x) {
        out[i] = (in[i] - mean) * inverse * weight[i] + bias[i];
    }
}

torch::Tensor sample_norm_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    long width = weight.numel();
    auto y = torch::empty_like(x);
    sample_norm_kernel<<<x.numel() / width, 256>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
        width, (float)eps);
    return y;
}
"""

cpp_source = "torch::Tensor sample_norm_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);"

sample_norm = load_inline(
    name="sample_norm",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["sample_norm_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        return sample_norm.sample_norm_forward(x.contiguous(), self.ln.weight, self.ln.bias, self.ln.eps)
