"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); it is multiplied by a learned multiplier of
shape multiplier_shape, and leaky ReLU (slope 0.01) and exact GELU are applied. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 64
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 3
multiplier_shape = (out_channels, 1, 1)


class Model(nn.Module):
    """Convolution, learned multiplier, leaky ReLU, GELU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, multiplier_shape: tuple[int, ...]
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.leaky_relu = nn.LeakyReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = x * self.multiplier
        x = self.leaky_relu(x)
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, multiplier_shape]
