"""RMS norm over channels, one thread a pixel: two passes, both coalesced.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void pixel_rms_kernel(const float* x, float* y, int C, long area, long total, float eps) {
    long pixel = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (pixel >= total) return;
    long base = pixel / area * C * area + pixel % area;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        float v = x[base + c * area];
        sum += v * v;
    }
    float scale = 1.0f / sqrtf(sum / C + eps);
    for (int c = 0; c < C; ++c) {
        y[base + c * area] = x[base + c * area] * scale;
    }
}

torch::Tensor pixel_rms_forward(torch::Tensor x, double eps) {
    int C = x.size(1);
    long area = x.numel() / x.size(0) / C;
    long total = x.size(0) * area;
    auto y = torch::empty_like(x);
    pixel_rms_kernel<<<(total + 255) / 256, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), C, area, total, (float)eps);
    return y;
}
"""

cpp_source = "torch::Tensor pixel_rms_forward(torch::Tensor x, double eps);"

pixel_rms = load_inline(
    name="pixel_rms",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["pixel_rms_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x):
        return pixel_rms.pixel_rms_forward(x.contiguous(), self.eps)
