"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size shrinking by kernel_size - 1; ReLU, leaky ReLU (slope 0.01), exact
GELU and sigmoid are applied in turn, and a learned bias of shape bias_shape is added. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 64
in_channels = 8
out_channels = 32
depth = 32
height = 64
width = 64
kernel_size = 3
bias_shape = (out_channels, 1, 1, 1)


class Model(nn.Module):
    """Convolution, chain of four activations, learned bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = torch.relu(x)
        x = F.leaky_relu(x, negative_slope=0.01)
        x = F.gelu(x)
        x = torch.sigmoid(x)
        return x + self.bias


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, bias_shape]
