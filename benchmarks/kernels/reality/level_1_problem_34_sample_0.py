"""Instance norm, a block of 256 threads an instance, in three passes.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ float instance_norm_total(float value) {
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

__global__ void instance_norm_kernel(const float* x, float* y, long width, float eps) {
    long row = blockIdx.x;
    const float* in = x + row * width;
    float* out = y + row * width;
    float sum = 0.0f;
    for (long i = threadIdx.x; i < width; i += blockDim.x) sum += in[i];
    float mean = instance_norm_total(sum) / width;
    float square = 0.0f;
    for (long i = threadIdx.x; i < width; i += blockDim.x) {
        float centred = in[i] - mean;
        square += centred * centred;
    }
    float inverse = rsqrtf(instance_norm_total(square) / width + eps);
    for (long i = threadIdx.x; i < width; i += blockDim.x) {
        out[i] = (in[i] - mean) * inverse;
    }
}

torch::Tensor instance_norm_forward(torch::Tensor x, double eps) {
    long width = x.size(2) * x.size(3);
    auto y = torch::empty_like(x);
    instance_norm_kernel<<<x.size(0) * x.size(1), 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), width, (float)eps);
    return y;
}
"""

cpp_source = "torch::Tensor instance_norm_forward(torch::Tensor x, double eps);"

instance_norm = load_inline(
    name="instance_norm",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["instance_norm_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features)

    def forward(self, x):
        return instance_norm.instance_norm_forward(x.contiguous(), self.inorm.eps)
