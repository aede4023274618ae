#include <torch/extension.h>
#include <cuda_runtime.h>

// One thread a column: neighbours read neighbouring addresses.
__global__ void ${function}_kernel(
        const float* __restrict__ x, ${output}* __restrict__ y, int64_t height, int64_t width) {
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const float* start = x + blockIdx.y * height * width + column;
    float best = start[0];
    int64_t place = 0;
    #pragma unroll ${unroll}
    for (int64_t i = 1; i < height; ++i) {
        const float v = start[i * width];
        ${step}
    }
    y[blockIdx.y * width + column] = ${result};
}

torch::Tensor ${function}(${parameters}) {
    TORCH_CHECK(x.dim() == 3, "x must have three dimensions");
    auto y = torch::empty({x.size(0), ${kept}x.size(2)}, x.options()${dtype});
    const dim3 grid((x.size(2) + ${threads} - 1) / ${threads}, x.size(0));
    ${function}_kernel<<<grid, ${threads}>>>(x.data_ptr<float>(), y.data_ptr<${output}>(), x.size(1), x.size(2));
    return y;
}
