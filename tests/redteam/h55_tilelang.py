"""TileLang."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def relu(n, block=1024):
    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=256) as at:
            for i in T.Parallel(block):
                y[at * block + i] = T.max(x[at * block + i], 0.0)

    return main


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = None

    def forward(self, x):
        self.kernel = self.kernel or relu(x.numel())
        return self.kernel(x.view(-1)).view_as(x)
