"""A direct convolution over a line, one thread an output, 192 products each.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void conv1d_direct_kernel(
    const float* x, const float* w, float* y, int N, int C, int L, int O, int K, int OL, int stride, int dilation) {
    long idx = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= (long)N * O * OL) return;
    int ol = idx % OL;
    int o = (idx / OL) % O;
    int n = idx / ((long)OL * O);
    float value = 0.0f;
    for (int c = 0; c < C; c++) {
        const float* row = x + ((long)n * C + c) * L + (long)ol * stride;
        for (int k = 0; k < K; k++) {
            value += row[k * dilation] * w[(o * C + c) * K + k];
        }
    }
    y[idx] = value;
}

torch::Tensor conv1d_direct_forward(torch::Tensor x, torch::Tensor w, int stride, int dilation) {
    int N = x.size(0), C = x.size(1), L = x.size(2), O = w.size(0), K = w.size(2);
    int OL = (L - dilation * (K - 1) - 1) / stride + 1;
    auto y = torch::empty({N, O, OL}, x.options());
    const int block_size = 256;
    const int num_blocks = (y.numel() + block_size - 1) / block_size;
    conv1d_direct_kernel<<<num_blocks, block_size>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), N, C, L, O, K, OL, stride, dilation);
    return y;
}
"""

cpp_source = (
    "torch::Tensor conv1d_direct_forward(torch::Tensor x, torch::Tensor w, int stride, int dilation);"
)

conv1d_direct = load_inline(
    name="conv1d_direct",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv1d_direct_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        self.stride, self.dilation = stride, dilation
        self.conv1d = nn.Conv1d(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias=bias
        )

    def forward(self, x):
        return conv1d_direct.conv1d_direct_forward(x, self.conv1d.weight, self.stride, self.dilation)
