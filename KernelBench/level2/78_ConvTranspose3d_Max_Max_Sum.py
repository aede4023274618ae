"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; max pooling over 2x2x2 and then over 3x3x3
windows, each rounding sizes down, and the sum over the channels (kept with size one) follow. All float32."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
depth = 32
height = 32
width = 32
kernel_size = 5
stride = 2
padding = 2


class Model(nn.Module):
    """Transposed convolution, two max poolings, sum over channels."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.max_pool1 = nn.MaxPool3d(kernel_size=2)
        self.max_pool2 = nn.MaxPool3d(kernel_size=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = self.max_pool1(x)
        x = self.max_pool2(x)
        return torch.sum(x, dim=1, keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding]
