"""3-D average pooling over cubic windows of kernel_size values per axis, placed every stride positions; the
zeros of the padding count in the mean, so that the divisor is always kernel_size^3. x is float32 of shape
(batch_size, channels, depth, height, width); each spatial size n becomes floor((n + 2 * padding -
kernel_size) / stride) + 1 in y.
"""

import torch
import torch.nn as nn

batch_size = 16
channels = 32
depth = 128
height = 128
width = 256
kernel_size = 3
stride = 2
padding = 1


class Model(nn.Module):
    """3-D average pooling."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0) -> None:
        super().__init__()
        self.avg_pool = nn.AvgPool3d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.avg_pool(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, channels, depth, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [kernel_size, stride, padding]
