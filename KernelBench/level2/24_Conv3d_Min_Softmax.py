"""A 3-D convolution without padding maps x of shape (batch_size, in_channels, D, H, W) to out_channels
channels, each spatial size shrinking by kernel_size - 1; the minimum over axis dim (the depth, which
disappears) and softmax over the channels give shape (batch_size, out_channels, H - kernel_size + 1, W -
kernel_size + 1). All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 24
D = 24
H = 32
W = 32
kernel_size = 3
dim = 2


class Model(nn.Module):
    """Convolution, minimum over one axis, softmax over channels."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, dim: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = torch.min(x, dim=self.dim).values
        return torch.softmax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, D, H, W)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, dim]
