"""GELU by the tanh approximation on CUTLASS's vectors, one pass. Judged correct on an H100.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <c10/cuda/CUDAStream.h>
#include <cutlass/array.h>
#include <cutlass/fast_math.h>
#include <cutlass/functional.h>

using Vector = cutlass::Array<float, 4>;

__global__ void new_gelu_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
    cutlass::multiplies<Vector> times;
    cutlass::multiply_add<Vector> times_plus;
    cutlass::divides<Vector> over;
    cutlass::plus<Vector> plus;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        Vector v = reinterpret_cast<const Vector*>(x)[i];
        Vector u = times(-1.5957691216057308f, times_plus(times(0.044715f, times(v, v)), v, v));
        for (int at = 0; at < Vector::kElements; ++at) u[at] = cutlass::fast_exp(u[at]);
        reinterpret_cast<Vector*>(y)[i] = over(v, plus(1.0f, u));
    } else {
        for (int64_t at = 4 * i; at < n; ++at) {
            float v = x[at];
            y[at] = v / (1.0f + cutlass::fast_exp(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
        }
    }
}

torch::Tensor new_gelu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int64_t n = x.numel(), threads = (n + 3) / 4;
    auto stream = c10::cuda::getCurrentCUDAStream();  // the evaluator's stream, not the default one
    new_gelu_kernel<<<(threads + 255) / 256, 256, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

extension = load_inline(
    name="worked_new_gelu_cutlass",
    cpp_sources="torch::Tensor new_gelu(torch::Tensor x);",
    cuda_sources=CUDA_SOURCE,
    functions=["new_gelu"],
    extra_include_paths=[os.environ.get("CUTLASS_PATH", "/opt/cutlass") + "/include"],
)


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        return extension.new_gelu(x if x.data_ptr() % 16 == 0 else x.clone())
