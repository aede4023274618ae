"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size shrinking by kernel_size - 1; the result is divided by divisor,
max-pooled over windows of pool_size, averaged over all positions, a learned bias of shape bias_shape is
added, and the sum over axis sum_dim (the channels) gives shape (batch_size, 1, 1, 1). kernel_size holds one
size per spatial axis. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 16
depth = 16
height = 64
width = 64
kernel_size = (3, 3, 3)
divisor = 2.0
pool_size = (2, 2, 2)
bias_shape = (out_channels, 1, 1, 1)
sum_dim = 1


class Model(nn.Module):
    """Convolution, division, max pooling, global average, bias, sum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        divisor: float,
        pool_size: tuple[int, int, int],
        bias_shape: tuple[int, ...],
        sum_dim: int,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.divisor = divisor
        self.max_pool = nn.MaxPool3d(pool_size)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.sum_dim = sum_dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = x / self.divisor
        x = self.max_pool(x)
        x = self.global_avg_pool(x)
        x = x + self.bias
        return torch.sum(x, dim=self.sum_dim)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float | tuple[int, int, int] | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, divisor, pool_size, bias_shape, sum_dim]
