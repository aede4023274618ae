"""A direct three-dimensional convolution, one thread an output, five nested indices.

kind: naive-cuda
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void conv3d_direct_kernel(
    const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
    int N, int C, int D, int H, int W, int O, int K, int OD, int OH, int OW) {
    long index = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (long)N * O * OD * OH * OW) return;
    int ow = index % OW;
    long rest = index / OW;
    int oh = rest % OH;
    rest /= OH;
    int od = rest % OD;
    rest /= OD;
    int o = rest % O;
    int n = rest / O;
    float acc = 0.0f;
    for (int c = 0; c < C; ++c)
        for (int kd = 0; kd < K; ++kd)
            for (int kh = 0; kh < K; ++kh)
                for (int kw = 0; kw < K; ++kw)
                    acc += x[((((long)n * C + c) * D + od + kd) * H + oh + kh) * W + ow + kw] *
                           w[(((o * C + c) * K + kd) * K + kh) * K + kw];
    y[index] = acc;
}

torch::Tensor conv3d_direct_forward(torch::Tensor x, torch::Tensor w) {
    int N = x.size(0), C = x.size(1), D = x.size(2), H = x.size(3), W = x.size(4);
    int O = w.size(0), K = w.size(2);
    int OD = D - K + 1, OH = H - K + 1, OW = W - K + 1;
    auto y = torch::empty({N, O, OD, OH, OW}, x.options());
    const int threads = 256;
    const long blocks = (y.numel() + threads - 1) / threads;
    conv3d_direct_kernel<<<blocks, threads>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), N, C, D, H, W, O, K, OD, OH, OW);
    return y;
}
"""

cpp_source = "torch::Tensor conv3d_direct_forward(torch::Tensor x, torch::Tensor w);"

conv3d_direct = load_inline(
    name="conv3d_direct",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["conv3d_direct_forward"],
    verbose=False,
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=False
    ):
        super().__init__()
        self.conv3d = nn.Conv3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        return conv3d_direct.conv3d_direct_forward(x.contiguous(), self.conv3d.weight.contiguous())
