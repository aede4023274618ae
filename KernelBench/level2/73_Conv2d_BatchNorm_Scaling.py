"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); batch normalisation in training mode (batch
statistics) and a factor scaling_factor follow. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 128
width = 128
kernel_size = 3
scaling_factor = 2.0


class Model(nn.Module):
    """Convolution, batch norm, scale."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, scaling_factor: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bn = nn.BatchNorm2d(out_channels)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = self.bn(x)
        return x * self.scaling_factor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int | float]:
    return [in_channels, out_channels, kernel_size, scaling_factor]
