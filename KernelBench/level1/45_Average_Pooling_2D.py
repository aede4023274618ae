"""2-D average pooling over square windows of kernel_size x kernel_size values. Stride and padding keep their
defaults: the windows do not overlap (stride equals kernel_size), nothing is padded, and the rest of the image
that fills no window is left out. x is float32 of shape (batch_size, channels, height, width), y is
(batch_size, channels, floor(height / kernel_size), floor(width / kernel_size)).
"""

import torch
import torch.nn as nn

batch_size = 16
channels = 64
height = 2048
width = 2048
kernel_size = 11


class Model(nn.Module):
    """2-D average pooling."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0) -> None:
        super().__init__()
        self.avg_pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.avg_pool(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [kernel_size]
