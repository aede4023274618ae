"""A 2-D transposed convolution maps x of shape (batch_size, in_channels, height, width) to out_channels
channels with spatial sizes 2 * height + 2 and 2 * width + 2; add_value is added, the elementwise minimum with
zero taken, exact GELU applied, and the result multiplied by multiply_value. All float32. With the default
initialisation the sum is practically always positive, so that almost every output is zero."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 64
out_channels = 128
height = 64
width = 64
kernel_size = 4
stride = 2
add_value = 0.5
multiply_value = 2.0


class Model(nn.Module):
    """Transposed convolution, scalar addition, minimum with zero, GELU, scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        add_value: float,
        multiply_value: float,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.add_value = add_value
        self.multiply_value = multiply_value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = x + self.add_value
        x = torch.min(x, torch.tensor(0.0, device=x.device))
        x = F.gelu(x)
        return x * self.multiply_value


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int | float]:
    return [in_channels, out_channels, kernel_size, stride, add_value, multiply_value]
