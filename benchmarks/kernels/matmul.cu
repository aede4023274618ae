#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#define TILE ${tile}

__global__ void ${function}_kernel(
        const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ float left[TILE][TILE + 1];
    __shared__ float right[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float total = 0.0f;
    for (int at = 0; at < k; at += TILE) {
        const int inner = at + threadIdx.x, outer = at + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && inner < k ? a[${left}] : 0.0f;
        right[threadIdx.y][threadIdx.x] = outer < k && column < n ? b[${right}] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < TILE; ++i) total += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[int64_t(row) * n + column] = total;
}

torch::Tensor ${function}(${parameters}) {
    TORCH_CHECK(x.is_contiguous() && w.is_contiguous(), "operands must be contiguous");
    const int m = x.size(${m}), k = x.size(1 - ${m}), n = w.size(${n});
    auto c = torch::empty({m, n}, x.options());
    const dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), block(TILE, TILE);
    ${function}_kernel<<<grid, block, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
    return c;
}
