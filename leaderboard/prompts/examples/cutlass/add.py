import os

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cutlass/array.h>
#include <cutlass/functional.h>

using Vector = cutlass::Array<float, 4>;

// A thread adds four elements at once, the last one what is left over.
__global__ void add_kernel(const float* a, const float* b, float* out, int64_t n) {
    cutlass::plus<Vector> plus;
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        Vector left = reinterpret_cast<const Vector*>(a)[i];
        Vector right = reinterpret_cast<const Vector*>(b)[i];
        reinterpret_cast<Vector*>(out)[i] = plus(left, right);
    } else {
        for (int64_t at = 4 * i; at < n; ++at) out[at] = a[at] + b[at];
    }
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty_like(a);
    int64_t n = a.numel(), threads = (n + 3) / 4;
    add_kernel<<<(threads + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="example_cutlass_add",
    cpp_sources="torch::Tensor add(torch::Tensor a, torch::Tensor b);",
    cuda_sources=cuda_source,
    functions=["add"],
    extra_include_paths=[os.path.join(os.environ["CUTLASS_PATH"], "include")],
)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return module.add(a.contiguous(), b.contiguous())
