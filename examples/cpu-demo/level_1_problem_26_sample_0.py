"""Does not compile, on purpose: a semicolon is missing in the C++ source."""

import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>

extern "C" void gelu(const float* x, float* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        y[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f))
    }
}
"""

library = ctypes.CDLL(
    load_inline(
        name="cpu_demo_gelu",
        cpp_sources=SOURCE,
        extra_cflags=["-O3"],
        no_implicit_headers=True,
        is_python_module=False,
    )
)
library.gelu.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
library.gelu.restype = None


class ModelNew(nn.Module):
    """Elementwise GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        library.gelu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
