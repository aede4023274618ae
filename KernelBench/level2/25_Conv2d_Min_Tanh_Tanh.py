"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); the minimum over the channels (kept with
size one) and two applications of tanh follow. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 16
out_channels = 64
height = 256
width = 256
kernel_size = 3


class Model(nn.Module):
    """Convolution, minimum over channels, tanh twice."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = torch.min(x, dim=1, keepdim=True).values
        x = torch.tanh(x)
        return torch.tanh(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
