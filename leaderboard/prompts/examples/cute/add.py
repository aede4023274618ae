import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack

THREADS = 256


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(a):
        out[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream):
    blocks = (cute.size(a) + THREADS - 1) // THREADS
    add_kernel(a, b, out).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = {}

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a)
        flat = [from_dlpack(tensor.contiguous().view(-1)) for tensor in (a, b)]
        flat.append(from_dlpack(out.view(-1)))
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        kind = (a.numel(), a.dtype)
        if kind not in self.compiled:
            self.compiled[kind] = cute.compile(add, *flat, stream)
        self.compiled[kind](*flat, stream)
        return out
