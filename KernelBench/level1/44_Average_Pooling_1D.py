"""1-D average pooling: y[b, c, i] is the mean of the kernel_size neighbouring values of x[b, c] that start at
i * stride - padding; the zeros of the padding count in the mean. x is float32 of shape (batch_size,
in_channels, input_length); the length of y is floor((input_length + 2 * padding - kernel_size) / stride) + 1.
"""

import torch
import torch.nn as nn

batch_size = 64
in_channels = 128
input_length = 65536
kernel_size = 8
stride = 1
padding = 4


class Model(nn.Module):
    """1-D average pooling."""

    def __init__(self, kernel_size: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.avg_pool = nn.AvgPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.avg_pool(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, input_length)
    return [x]


def get_init_inputs() -> list[int]:
    return [kernel_size, stride, padding]
