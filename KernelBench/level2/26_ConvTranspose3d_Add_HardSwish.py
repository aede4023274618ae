"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, D, H, W) to out_channels channels,
doubling all three spatial sizes; with v the sum of this and add_input of shape (batch_size, out_channels,
stride * D, stride * H, stride * W), the output is v * hardswish(v). The parameter bias of shape bias_shape is
drawn but has no influence on the output. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 32
out_channels = 64
D = 16
H = 16
W = 16
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
bias_shape = (out_channels, 1, 1, 1, 1)


class Model(nn.Module):
    """Transposed convolution plus a second input, times its own hard swish."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        output_padding: int,
        bias_shape: tuple[int, ...],
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor, add_input: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = x + add_input
        return x * F.hardswish(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, D, H, W)
    add_input = torch.rand(batch_size, out_channels, stride * D, stride * H, stride * W)
    return [x, add_input]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, bias_shape]
