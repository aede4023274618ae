"""A cooperative launch with a barrier over the whole grid."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void relu(const float* x, float* y, long n) {
    cg::grid_group grid = cg::this_grid();
    for (long i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i];
    grid.sync();
    for (long i = grid.thread_rank(); i < n; i += grid.size()) y[i] = y[i] < 0 ? 0 : y[i];
}
torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    long n = x.numel();
    void* arguments[] = {&in, &out, &n};
    cudaLaunchCooperativeKernel((void*)relu, 132, 256, arguments, 0, at::cuda::getCurrentCUDAStream());
    return y;
}
"""
extension = load_inline(
    name="cooperative", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=SOURCE, functions=["run"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
