"""RMSNorm over the channels in cuTile: a block holds all channels of its places, and reads them once."""

import cuda.tile as ct
import torch
from torch import nn

PLACES = 128


@ct.kernel
def rms_norm_kernel(
    x, y, eps, features: ct.Constant[int], CHANNELS: ct.Constant[int], PLACES: ct.Constant[int]
):
    at = (ct.bid(1), 0, ct.bid(0))
    v = ct.load(x, index=at, shape=(1, CHANNELS, PLACES), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(v * v, axis=1, keepdims=True) / features
    ct.store(y, index=at, tile=v / ct.sqrt(mean + eps))


class ModelNew(nn.Module):
    """x / sqrt(mean over channels of x^2 + eps)."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        batch, features = x.shape[:2]
        places = x[0, 0].numel()
        channels = 1 << (features - 1).bit_length()
        grid = (ct.cdiv(places, PLACES), batch, 1)
        flat = (batch, features, places)
        arguments = (x.view(flat), y.view(flat), self.eps, features, channels, PLACES)
        ct.launch(torch.cuda.current_stream(), grid, rms_norm_kernel, arguments)
        return y
