"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, D, H, W) to out_channels
channels, each spatial size shrinking by kernel_size - 1; group normalisation with num_groups groups and the
mean over channels and positions give shape (batch_size,). All float32. Since the affine parameters start at
one and zero, the output is zero up to rounding."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 24
D = 24
H = 32
W = 32
kernel_size = 3
num_groups = 8


class Model(nn.Module):
    """Convolution, group norm, mean per sample."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = self.group_norm(x)
        return x.mean(dim=(1, 2, 3, 4))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, D, H, W)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, num_groups]
