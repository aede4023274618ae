"""2-D convolution (cross-correlation) of square images with a rectangular kernel, padded and dilated:
y[b, o, p] is the sum over all c and all kernel offsets q of weight[o, c, q] *
x[b, c, p * stride + q * dilation - padding], with zeros outside x. x is float32 of shape (batch_size,
in_channels, height, width); the spatial size n of axis a becomes n + 2 * padding[a] - dilation[a] *
(kernel_size[a] - 1) in y, the stride being 1. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 32
out_channels = 64
kernel_size = (5, 9)
width = 512
height = 512
stride = 1
padding = (2, 4)
dilation = (2, 3)


class Model(nn.Module):
    """Padded, dilated 2-D convolution with a rectangular kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv2d = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int]]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
