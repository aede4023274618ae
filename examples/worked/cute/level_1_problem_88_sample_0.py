"""GELU by the tanh approximation in the CuTe DSL, one pass. Judged correct on an H100.

x / 2 * (1 + tanh(u)) equals x * sigmoid(2 u), which needs one exponential and no tanh.
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack
from torch import nn

THREADS = 256


@cute.kernel
def new_gelu_kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(x):
        v = x[i]
        u = cutlass.Float32(-1.5957691216057308) * (v + cutlass.Float32(0.044715) * v * v * v)
        y[i] = v / (cutlass.Float32(1.0) + cute.math.exp(u))


@cute.jit
def new_gelu(x: cute.Tensor, y: cute.Tensor, stream: cuda.CUstream):
    blocks = (cute.size(x) + THREADS - 1) // THREADS
    new_gelu_kernel(x, y).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


class ModelNew(nn.Module):
    """Elementwise GELU by the tanh approximation."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        flat = (from_dlpack(x.view(-1)), from_dlpack(y.view(-1)))
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        if x.numel() not in self.compiled:
            self.compiled[x.numel()] = cute.compile(new_gelu, *flat, stream)
        self.compiled[x.numel()](*flat, stream)
        return y
