import tilelang
import tilelang.language as T
import torch
import torch.nn as nn


@tilelang.jit(out_idx=[-1])
def build_add(n: int, block: int = 1024, dtype: str = "float16"):
    @T.prim_func
    def add(a: T.Tensor((n,), dtype), b: T.Tensor((n,), dtype), out: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=256) as tile:
            for i in T.Parallel(block):
                out[tile * block + i] = a[tile * block + i] + b[tile * block + i]

    return add


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernels = {}

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        n = a.numel()
        if n not in self.kernels:
            self.kernels[n] = build_add(n)
        return self.kernels[n](a.contiguous().view(-1), b.contiguous().view(-1)).view_as(a)
