"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; values below min_value are raised to it and the
result is divided by divisor. All float32."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
depth = 24
height = 48
width = 48
kernel_size = 3
stride = 2
padding = 1
min_value = -1.0
divisor = 2.0


class Model(nn.Module):
    """Transposed convolution, clamp from below, division."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        min_value: float,
        divisor: float,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.min_value = min_value
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = torch.clamp(x, min=self.min_value)
        return x / self.divisor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float]:
    return [in_channels, out_channels, kernel_size, stride, padding, min_value, divisor]
