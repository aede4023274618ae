#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void ${function}_kernel(
        const float* __restrict__ x, float* __restrict__ y, int64_t channels, int64_t places, float eps) {
    const int64_t place = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= places) return;
    const int64_t base = blockIdx.y * channels * places + place;
    float total = 0.0f;
    for (int64_t c = 0; c < channels; ++c) {
        const float v = x[base + c * places];
        total += v * v;
    }
    const float scale = 1.0f / sqrtf(total / float(channels) + eps);
    for (int64_t c = 0; c < channels; ++c) y[base + c * places] = x[base + c * places] * scale;
}

torch::Tensor ${function}(${parameters}) {
    auto y = torch::empty_like(x);
    const int64_t places = x.size(2) * x.size(3);
    const dim3 grid((places + 255) / 256, x.size(0));
    ${function}_kernel<<<grid, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), places, float(eps));
    return y;
}
