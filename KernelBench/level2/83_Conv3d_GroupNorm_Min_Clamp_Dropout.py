"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size shrinking by kernel_size - 1; group normalisation with `groups`
groups, the elementwise minimum with min_value, a clamp to [min_value, max_value] and dropout with probability
dropout_p follow. Dropout is active because the model stays in training mode, so every forward draws random
numbers; yet the minimum and the clamp leave min_value everywhere, which is zero, and so is the output. All
float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 64
width = 64
kernel_size = 3
groups = 8
min_value = 0.0
max_value = 1.0
dropout_p = 0.2


class Model(nn.Module):
    """Convolution, group norm, minimum, clamp, active dropout."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        groups: int,
        min_value: float,
        max_value: float,
        dropout_p: float,
    ):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(groups, out_channels)
        self.dropout = nn.Dropout(dropout_p)
        self.min_value = min_value
        self.max_value = max_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = self.norm(x)
        x = torch.min(x, torch.tensor(self.min_value, device=x.device))
        x = torch.clamp(x, min=self.min_value, max=self.max_value)
        return self.dropout(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float]:
    return [in_channels, out_channels, kernel_size, groups, min_value, max_value, dropout_p]
