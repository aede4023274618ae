"""GELU by the tanh approximation in CUDA, compiled and bound by tvm-ffi. Judged correct on an H100.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import torch
import tvm_ffi.cpp
from torch import nn

CUDA_SOURCE = r"""
__global__ void new_gelu_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = v / (1.0f + expf(-1.5957691216057308f * (v + 0.044715f * v * v * v)));
    }
}

void new_gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
    int64_t n = x.numel();
    DLDevice device = x.device();  // its stream is the caller's current one
    cudaStream_t stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
    new_gelu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
        static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), n);
}
"""

extension = tvm_ffi.cpp.load_inline(
    name="worked_new_gelu_tvm_ffi", cuda_sources=CUDA_SOURCE, functions=["new_gelu"]
)


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        extension.new_gelu(x, y)
        return y
