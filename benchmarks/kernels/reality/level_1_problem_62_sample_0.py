"""A direct convolution with a block for each output row; 45 taps times 32 channels from global memory.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void conv_asym_kernel(
    const float* x, const float* w, float* y, int C, int H, int W, int O, int KH, int KW, int OH, int OW) {
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y;
    int n = blockIdx.z / O;
    int o = blockIdx.z % O;
    if (ow >= OW) return;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        for (int i = 0; i < KH; ++i) {
            for (int j = 0; j < KW; ++j) {
                sum += x[((n * C + c) * H + oh + i) * W + ow + j] * w[((o * C + c) * KH + i) * KW + j];
            }
        }
    }
    y[((long)blockIdx.z * OH + oh) * OW + ow] = sum;
}

torch::Tensor conv_asym_forward(torch::Tensor x, torch::Tensor w) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int O = w.size(0), KH = w.size(2), KW = w.size(3);
    int OH = H - KH + 1, OW = W - KW + 1;
    auto y = torch::empty({N, O, OH, OW}, x.options());
    dim3 block(128);
    dim3 grid((OW + 127) / 128, OH, N * O);
    conv_asym_kernel<<<grid, block>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), C, H, W, O, KH, KW, OH, OW);
    return y;
}
"""

cpp_source = "torch::Tensor conv_asym_forward(torch::Tensor x, torch::Tensor w);"

conv_asym = load_inline(
    name="conv_asym",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv_asym_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        return conv_asym.conv_asym_forward(x.contiguous(), self.conv2d.weight.contiguous())
