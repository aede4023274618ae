"""RMS normalisation in C++: one pass sums the squares of all channels, a second one scales them.

The positions of one sample are walked in blocks that stay in the cache between the two passes.
"""

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>

static const int64_t BLOCK = 256;

extern "C" void rms_norm(const float* x, float* y, int64_t batch, int64_t channels, int64_t positions, float eps) {
    float scale[BLOCK];
    for (int64_t b = 0; b < batch; ++b) {
        for (int64_t start = 0; start < positions; start += BLOCK) {
            const int64_t width = positions - start < BLOCK ? positions - start : BLOCK;
            const int64_t first = b * channels * positions + start;
            for (int64_t i = 0; i < width; ++i) scale[i] = 0.0f;
            for (int64_t c = 0; c < channels; ++c) {
                const float* row = x + first + c * positions;
                for (int64_t i = 0; i < width; ++i) scale[i] += row[i] * row[i];
            }
            for (int64_t i = 0; i < width; ++i) scale[i] = 1.0f / std::sqrt(scale[i] / channels + eps);
            for (int64_t c = 0; c < channels; ++c) {
                const float* row = x + first + c * positions;
                float* out = y + first + c * positions;
                for (int64_t i = 0; i < width; ++i) out[i] = row[i] * scale[i];
            }
        }
    }
}
"""

library = ctypes.CDLL(
    load_inline(
        name="cpu_demo_rms_norm",
        cpp_sources=SOURCE,
        extra_cflags=["-O3", "-fno-math-errno"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
library.rms_norm.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 3 + [ctypes.c_float]
library.rms_norm.restype = None


class ModelNew(nn.Module):
    """RMS normalisation over dimension 1."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        positions = x[0, 0].numel()
        library.rms_norm(x.data_ptr(), y.data_ptr(), x.shape[0], x.shape[1], positions, self.eps)
        return y
