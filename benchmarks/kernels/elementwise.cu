#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cmath>

__device__ __forceinline__ float ${function}_of(float x${scalar_parameter}) {
    return ${expression};
}

__global__ void ${function}_kernel(
        const float4* __restrict__ x, float4* __restrict__ y, int64_t quads${scalar_parameter}) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < quads; i += step) {
        float4 v = x[i];
        v.x = ${function}_of(v.x${scalar});
        v.y = ${function}_of(v.y${scalar});
        v.z = ${function}_of(v.z${scalar});
        v.w = ${function}_of(v.w${scalar});
        y[i] = v;
    }
}

__global__ void ${function}_rest(const float* x, float* y, int64_t from, int64_t count${scalar_parameter}) {
    const int64_t i = from + int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) y[i] = ${function}_of(x[i]${scalar});
}

torch::Tensor ${function}(${parameters}) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
    auto y = torch::empty_like(x);
    const int64_t count = x.numel(), quads = count / 4;
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    const int blocks = int(std::min<int64_t>((quads + ${threads} - 1) / ${threads}, 132 * 16));
    if (quads > 0)
        ${function}_kernel<<<blocks, ${threads}>>>(
            reinterpret_cast<const float4*>(in), reinterpret_cast<float4*>(out), quads${scalar_argument});
    if (count % 4)
        ${function}_rest<<<1, 4>>>(in, out, quads * 4, count${scalar_argument});
    return y;
}
