#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void ${function}_kernel(
        const float* __restrict__ a, const float* __restrict__ v, float* __restrict__ y, int64_t width) {
    __shared__ double parts[8];
    double total = 0.0;
    for (int64_t i = threadIdx.x; i < width; i += 256) total += double(a[blockIdx.x * width + i]) * v[i];
    for (int offset = 16; offset > 0; offset /= 2) total += __shfl_down_sync(0xffffffffu, total, offset);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 8; ++i) total += parts[i];
        y[blockIdx.x] = float(total);
    }
}

torch::Tensor ${function}(${parameters}) {
    auto y = torch::empty({x.size(0), 1}, x.options());
    ${function}_kernel<<<x.size(0), 256>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
