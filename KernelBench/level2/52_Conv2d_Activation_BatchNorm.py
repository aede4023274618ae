"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); with c the result, tanh(softplus(c)) * c
(that is, Mish) is taken and normalised per channel (batch normalisation in training mode, batch statistics).
All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 64
in_channels = 64
out_channels = 128
height = 128
width = 128
kernel_size = 3


class Model(nn.Module):
    """Convolution, Mish written out, batch norm."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, eps: float = 1e-05, momentum: float = 0.1
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bn = nn.BatchNorm2d(out_channels, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = torch.multiply(torch.tanh(F.softplus(x)), x)
        return self.bn(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
