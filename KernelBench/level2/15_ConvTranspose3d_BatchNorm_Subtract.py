"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; batch normalisation in training mode (batch
statistics) follows, and from every sample and channel its mean over the three spatial axes is subtracted. All
float32."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 16
out_channels = 32
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1


class Model(nn.Module):
    """Transposed convolution, batch norm, subtraction of the spatial mean."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.batch_norm = nn.BatchNorm3d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = self.batch_norm(x)
        return x - torch.mean(x, dim=(2, 3, 4), keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding]
