"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size shrinking by kernel_size - 1; the channels are multiplied by a
learned multiplier of shape multiplier_shape, normalised per sample and channel over all positions (instance
normalisation without affine parameters or running statistics), clamped to [clamp_min, clamp_max], multiplied
by the same multiplier again, and the maximum over the channels, which disappear, is taken. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
multiplier_shape = (out_channels, 1, 1, 1)
clamp_min = -1.0
clamp_max = 1.0


class Model(nn.Module):
    """Convolution, learned multiplier, instance norm, clamp, multiplier again, maximum over channels."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        multiplier_shape: tuple[int, ...],
        clamp_min: float,
        clamp_max: float,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.instance_norm = nn.InstanceNorm3d(out_channels)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = x * self.multiplier
        x = self.instance_norm(x)
        x = torch.clamp(x, self.clamp_min, self.clamp_max)
        x = x * self.multiplier
        return torch.max(x, dim=1).values


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, multiplier_shape, clamp_min, clamp_max]
