"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, D, H, W) to out_channels channels,
each spatial size growing by kernel_size - 1; the convolution has a bias only if bias is true. ReLU and group
normalisation with `groups` groups follow. All float32."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
D = 32
H = 32
W = 32
kernel_size = 3
groups = 8
bias = False


class Model(nn.Module):
    """Transposed convolution without bias, ReLU, group norm."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, groups: int, bias: bool = False
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=bias)
        self.relu = nn.ReLU()
        self.group_norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = self.relu(x)
        return self.group_norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, D, H, W)]


def get_init_inputs() -> list[int | bool]:
    return [in_channels, out_channels, kernel_size, groups, bias]
