import torch
import torch.nn as nn
import tvm_ffi.cpp

cuda_source = """
__global__ void add_kernel(const float* a, const float* b, float* out, int64_t n) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

void add(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
    int64_t n = a.numel();
    DLDevice device = a.device();
    cudaStream_t stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
    add_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
        static_cast<const float*>(a.data_ptr()), static_cast<const float*>(b.data_ptr()),
        static_cast<float*>(out.data_ptr()), n);
}
"""

module = tvm_ffi.cpp.load_inline(name="example_tvm_ffi_add", cuda_sources=cuda_source, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        module.add(a, b, out)
        return out
