"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size shrinking by kernel_size - 1; leaky ReLU with slope 0.2 is applied, a
learned sum_tensor of shape sum_tensor_shape added, the sum clamped to [-1, 1], and exact GELU applied. All
float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 8
out_channels = 64
depth = 16
height = 64
width = 64
kernel_size = 3
sum_tensor_shape = (out_channels, 1, 1, 1)


class Model(nn.Module):
    """Convolution, leaky ReLU, learned sum, clamp, GELU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, sum_tensor_shape: tuple[int, ...]
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.sum_tensor = nn.Parameter(torch.randn(sum_tensor_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = F.leaky_relu(x, negative_slope=0.2)
        x = x + self.sum_tensor
        x = torch.clamp(x, min=-1.0, max=1.0)
        return F.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, sum_tensor_shape]
