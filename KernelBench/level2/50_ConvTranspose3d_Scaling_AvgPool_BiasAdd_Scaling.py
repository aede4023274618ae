"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; it is multiplied by a learned scalar that
starts at scale1, averaged over 2x2x2 windows, a learned bias of shape bias_shape is added, and the sum is
multiplied by a learned scalar that starts at scale2. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
scale1 = 0.5
scale2 = 1.0
bias_shape = (out_channels, 1, 1, 1)


class Model(nn.Module):
    """Transposed convolution, learned scalar, average pooling, bias, second learned scalar."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        scale1: float,
        scale2: float,
        bias_shape: tuple[int, ...],
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.scale1 = nn.Parameter(torch.tensor(scale1))
        self.avg_pool = nn.AvgPool3d(kernel_size=2)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale2 = nn.Parameter(torch.tensor(scale2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = x * self.scale1
        x = self.avg_pool(x)
        x = x + self.bias
        return x * self.scale2


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, stride, padding, scale1, scale2, bias_shape]
