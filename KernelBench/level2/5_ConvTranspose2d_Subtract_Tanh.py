"""A 2-D transposed convolution maps x of shape (batch_size, in_channels, height, width) to out_channels
channels, with spatial sizes 2 * height + 1 and 2 * width + 1 under the default stride, padding and output
padding; a learned tensor of shape bias_shape is subtracted and tanh is applied. All float32."""

import torch
import torch.nn as nn

batch_size = 32
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 4
bias_shape = (out_channels, 1, 1)


class Model(nn.Module):
    """Transposed convolution, learned subtraction, tanh."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias_shape: tuple[int, ...],
        stride: int = 2,
        padding: int = 1,
        output_padding: int = 1,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = x - self.bias
        return torch.tanh(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, bias_shape]
