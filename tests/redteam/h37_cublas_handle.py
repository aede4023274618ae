"""PyTorch's own cuBLAS handle from C++."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty({a.size(0), b.size(1)}, a.options());
    float one = 1, zero = 0;
    int m = a.size(0), k = a.size(1), n = b.size(1);
    cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b.data_ptr<float>(), n,
                a.data_ptr<float>(), k, &zero, c.data_ptr<float>(), n);
    return c;
}
"""
extension = load_inline(
    name="handle", cpp_sources="torch::Tensor run(torch::Tensor a, torch::Tensor b);", cuda_sources=SOURCE,
    functions=["run"], extra_ldflags=["-lcublas"],
)  # fmt: skip


class ModelNew(torch.nn.Module):
    def forward(self, A, B):
        return extension.run(A, B)
