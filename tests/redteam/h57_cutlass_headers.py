"""Headers of CUTLASS."""

import os

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <cutlass/array.h>
#include <cutlass/functional.h>
__global__ void relu(const float* x, float* y, long n) {
    using Vector = cutlass::Array<float, 4>;
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    Vector v = reinterpret_cast<const Vector*>(x)[i];
    cutlass::maximum<Vector> largest;
    reinterpret_cast<Vector*>(y)[i] = largest(v, 0.0f);
}
torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    long n = x.numel();
    relu<<<(n / 4 + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
extension = load_inline(
    name="with_cutlass", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"],
    extra_include_paths=[os.environ.get("CUTLASS_PATH", "/usr/local/cutlass") + "/include"],
)  # fmt: skip


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
