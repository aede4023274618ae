import helion
import helion.language as hl
import torch
import torch.nn as nn


# A fixed configuration: without one, the first call tunes for minutes.
@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4))
def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in hl.tile(a.size(0)):
        out[tile] = a[tile] + b[tile]
    return out


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return add(a.contiguous().view(-1), b.contiguous().view(-1)).view_as(a)
