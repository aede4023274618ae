"""1-D max pooling: y[b, c, i] is the largest of the kernel_size values of x[b, c] that start at i * stride -
padding and lie dilation apart, where positions outside the signal count as minus infinity. x is float32 of
shape (batch_size, features, sequence_length); the length of y is floor((sequence_length + 2 * padding -
dilation * (kernel_size - 1) - 1) / stride) + 1. Indices are not returned.
"""

import torch
import torch.nn as nn

batch_size = 64
features = 192
sequence_length = 65536
kernel_size = 8
stride = 1
padding = 4
dilation = 3
return_indices = False


class Model(nn.Module):
    """1-D max pooling."""

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
        dilation: int = 1,
        return_indices: bool = False,
    ) -> None:
        super().__init__()
        self.maxpool = nn.MaxPool1d(
            kernel_size, stride=stride, padding=padding, dilation=dilation, return_indices=return_indices
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.maxpool(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, sequence_length)
    return [x]


def get_init_inputs() -> list[int | bool]:
    return [kernel_size, stride, padding, dilation, return_indices]
