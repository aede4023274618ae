"""LayerNorm over whole samples in cuTile: each block gives mean and squared deviation of its tile, from which
torch makes those of the sample; then each block scales its tile."""

import cuda.tile as ct
import torch
from torch import nn

TILE = 4096


@ct.kernel
def moments_kernel(x, means, squares, TILE: ct.Constant[int]):
    row = ct.bid(1)
    at = ct.bid(0)
    v = ct.load(x, index=(row, at), shape=(1, TILE))
    mean = ct.sum(v, axis=1, keepdims=True) / TILE
    off = v - mean
    ct.store(means, index=(row, at), tile=mean)
    ct.store(squares, index=(row, at), tile=ct.sum(off * off, axis=1, keepdims=True))


@ct.kernel
def scale_kernel(x, mean, rstd, weight, bias, y, TILE: ct.Constant[int]):
    row = ct.bid(1)
    at = ct.bid(0)
    v = ct.load(x, index=(row, at), shape=(1, TILE))
    m = ct.load(mean, index=(row,), shape=(1,)).reshape((1, 1))
    r = ct.load(rstd, index=(row,), shape=(1,)).reshape((1, 1))
    w = ct.load(weight, index=(at,), shape=(TILE,)).reshape((1, TILE))
    b = ct.load(bias, index=(at,), shape=(TILE,)).reshape((1, TILE))
    ct.store(y, index=(row, at), tile=(v - m) * r * w + b)


class ModelNew(nn.Module):
    """Normalise the last dimensions, then scale and shift."""

    def __init__(self, normalized_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)
        if self.ln.weight.numel() % TILE:
            raise ValueError(f"a sample must be a multiple of {TILE} elements, got {self.ln.weight.numel()}")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream()
        weight, bias = self.ln.weight.view(-1), self.ln.bias.view(-1)
        flat = x.contiguous().view(-1, weight.numel())
        rows, tiles = flat.shape[0], weight.numel() // TILE
        y = torch.empty_like(flat)
        means = torch.empty((rows, tiles), device=x.device, dtype=x.dtype)
        squares = torch.empty_like(means)
        ct.launch(stream, (tiles, rows, 1), moments_kernel, (flat, means, squares, TILE))
        apart, mean = torch.var_mean(means, dim=1, correction=0)
        rstd = torch.rsqrt(squares.mean(dim=1) / TILE + apart + self.ln.eps)
        ct.launch(stream, (tiles, rows, 1), scale_kernel, (flat, mean, rstd, weight, bias, y, TILE))
        return y.view_as(x)
