import cuda.tile as ct
import torch
import torch.nn as nn


@ct.kernel
def add_kernel(a, b, out, TILE: ct.Constant[int]):
    block = ct.bid(0)
    left = ct.load(a, index=(block,), shape=(TILE,))
    right = ct.load(b, index=(block,), shape=(TILE,))
    ct.store(out, index=(block,), tile=left + right)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        grid = (ct.cdiv(a.numel(), 1024), 1, 1)
        arguments = (a.view(-1), b.view(-1), out.view(-1), 1024)
        ct.launch(torch.cuda.current_stream(), grid, add_kernel, arguments)
        return out
