"""Windows of pool_kernel_size along each spatial axis of x, of shape (batch_size, in_channels, depth, height,
width), are averaged; a 3-D transposed convolution doubles the spatial sizes again and yields out_channels
channels; these are clamped to [clamp_min, clamp_max], passed through a softmax over all positions of a sample
and channel jointly, and multiplied by a learned scale per channel that starts at one. All float32."""

import torch
import torch.nn as nn

batch_size = 32
in_channels = 32
out_channels = 64
depth = 32
height = 64
width = 64
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
pool_kernel_size = 2
clamp_min = 0.0
clamp_max = 1.0


class Model(nn.Module):
    """Average pooling, transposed convolution, clamp, softmax over all positions, learned scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        pool_kernel_size: int,
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.avg_pool = nn.AvgPool3d(pool_kernel_size)
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.scale = nn.Parameter(torch.ones(1, out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.avg_pool(x)
        x = self.conv_transpose(x)
        x = torch.clamp(x, self.clamp_min, self.clamp_max)
        batch, channels, depth, height, width = x.shape
        x = x.view(batch, channels, -1)
        x = torch.softmax(x, dim=2)
        x = x.view(batch, channels, depth, height, width)
        return x * self.scale


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float]:
    return [
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        pool_kernel_size,
        clamp_min,
        clamp_max,
    ]
