"""3-D transposed convolution with a cubic kernel: each x[b, c, p] adds weight[c, o, q] * x[b, c, p] to
y[b, o, p + q] for every o and every offset q in {0, ..., kernel_size - 1}^3. x is float32 of shape
(batch_size, in_channels, depth, height, width); each spatial size n becomes n + kernel_size - 1 in y. The
stride is 1, nothing is padded and there is no bias, all by default.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 48
out_channels = 48
kernel_size = 3
depth = 64
height = 64
width = 64


class Model(nn.Module):
    """3-D transposed convolution with a cubic kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, kernel_size),
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size]
