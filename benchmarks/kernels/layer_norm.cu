#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ double ${function}_total(double value) {
    __shared__ double parts[32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0;
    for (int i = 0; i < 32; ++i) value += parts[i];
    __syncthreads();
    return value;
}

__global__ void ${function}_kernel(
        const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
        float* __restrict__ y, int64_t width) {
    const float* row = x + blockIdx.x * width;
    double total = 0.0, squares = 0.0;
    for (int64_t i = threadIdx.x; i < width; i += 1024) {
        total += row[i];
        squares += double(row[i]) * row[i];
    }
    const double mean = ${function}_total(total) / width;
    const double variance = ${function}_total(squares) / width - mean * mean;
    const float scale = float(1.0 / sqrt(variance + 1e-5)), shift = float(mean);
    for (int64_t i = threadIdx.x; i < width; i += 1024)
        y[blockIdx.x * width + i] = (row[i] - shift) * scale * weight[i] + bias[i];
}

torch::Tensor ${function}(${parameters}) {
    auto y = torch::empty_like(x);
    const int64_t rows = x.size(0);
    ${function}_kernel<<<rows, 1024>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
        x.numel() / rows);
    return y;
}
