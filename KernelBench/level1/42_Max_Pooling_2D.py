"""2-D max pooling over square windows of kernel_size x kernel_size values, placed every stride positions,
where positions outside the image (padding on each side) count as minus infinity. x is float32 of shape
(batch_size, channels, height, width); each spatial size n becomes floor((n + 2 * padding - dilation *
(kernel_size - 1) - 1) / stride) + 1 in y.
"""

import torch
import torch.nn as nn

batch_size = 32
channels = 64
height = 512
width = 512
kernel_size = 4
stride = 1
padding = 1
dilation = 1


class Model(nn.Module):
    """2-D max pooling."""

    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int) -> None:
        super().__init__()
        self.maxpool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.maxpool(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, channels, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [kernel_size, stride, padding, dilation]
