"""A 2-D transposed convolution maps x of shape (batch_size, in_channels, height, width) to out_channels
channels with spatial sizes height + kernel_size - 1 and width + kernel_size - 1; exact GELU and group
normalisation with num_groups groups follow. The constructor argument groups is accepted but has no influence.
All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 3
stride = 1
groups = 8
num_groups = 8


class Model(nn.Module):
    """Transposed convolution, GELU, group norm."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int, groups: int, num_groups: int
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = F.gelu(x)
        return self.group_norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, groups, num_groups]
