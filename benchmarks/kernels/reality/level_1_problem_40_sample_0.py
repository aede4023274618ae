"""Layer norm with one block of 256 threads a sample: 16 blocks for the whole device.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float sample_norm_total(float value) {
    __shared__ float shared[256];
    shared[threadIdx.x] = value;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
        __syncthreads();
    }
    float total = shared[0];
    __syncthreads();
    return total;
}

__global__ void sample_norm_kernel(
    const float* x, const float* weight, const float* bias, float* y, long width, float eps) {
    long row = blockIdx.x;
    const float* in = x + row * width;
    float* out = y + row * width;
    float sum = 0.0f;
    for (long i = threadIdx.x; i < width; i += blockDim.x) sum += in[i];
    float mean = sample_norm_total(sum) / width;
    float square = 0.0f;
    for (long i = threadIdx.x; i < width; i += blockDim.x) {
        float centred = in[i] - mean;
        square += centred * centred;
    }
    float inverse = rsqrtf(sample_norm_total(square) / width + eps);
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
