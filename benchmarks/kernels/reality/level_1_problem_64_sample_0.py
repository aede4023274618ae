"""A transposed convolution whose declaration and definition take different arguments: it does not link.

kind: does-not-compile
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void conv_transpose1d_kernel(
    const float* x, const float* w, float* y, int N, int C, int L, int O, int K, int OL) {
    long idx = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= (long)N * O * OL) return;
    int ol = idx % OL;
    int o = (idx / OL) % O;
    int n = idx / ((long)OL * O);
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int k = 0; k < K; ++k) {
            int l = ol - k;
            if (l >= 0 && l < L) sum += x[((long)n * C + c) * L + l] * w[(c * O + o) * K + k];
        }
    }
    y[idx] = sum;
}

torch::Tensor conv_transpose1d_forward(torch::Tensor x, torch::Tensor w) {
    int N = x.size(0), C = x.size(1), L = x.size(2), O = w.size(1), K = w.size(2);
    int OL = L + K - 1;
    auto y = torch::empty({N, O, OL}, x.options());
    conv_transpose1d_kernel<<<(y.numel() + 255) / 256, 256>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), N, C, L, O, K, OL);
    return y;
}
"""

cpp_source = "torch::Tensor conv_transpose1d_forward(torch::Tensor x, torch::Tensor w, int stride);"

conv_transpose1d = load_inline(
    name="conv_transpose1d",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_transpose1d_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=False,
    ):
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        weight = self.conv1d_transpose.weight
        return conv_transpose1d.conv_transpose1d_forward(x.contiguous(), weight, 1)
