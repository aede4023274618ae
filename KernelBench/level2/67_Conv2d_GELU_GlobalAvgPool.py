"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); exact GELU and the average over all
positions give shape (batch_size, out_channels). All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 8
out_channels = 64
height = 256
width = 256
kernel_size = 3


class Model(nn.Module):
    """Convolution, GELU, global average."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = F.gelu(x)
        x = F.adaptive_avg_pool2d(x, 1)
        return x.squeeze(-1).squeeze(-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
