"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; batch normalisation in training mode (batch
statistics) and two average poolings over 2x2x2 windows, each rounding sizes down, follow. The constructor
argument bias_shape is accepted but has no influence. All float32."""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 3
out_channels = 16
depth = 32
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
bias_shape = (out_channels, 1, 1, 1)


class Model(nn.Module):
    """Transposed convolution, batch norm, average pooling twice."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias_shape: tuple[int, ...],
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.batch_norm = nn.BatchNorm3d(out_channels)
        self.avg_pool1 = nn.AvgPool3d(kernel_size=2)
        self.avg_pool2 = nn.AvgPool3d(kernel_size=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = self.batch_norm(x)
        x = self.avg_pool1(x)
        return self.avg_pool2(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias_shape]
