"""2-D transposed convolution with a rectangular kernel and padding: each x[b, c, p] adds weight[c, o, q] *
x[b, c, p] to y[b, o, p * stride + q - padding] for every o and every kernel offset q; what falls outside is
dropped. x is float32 of shape (batch_size, in_channels, height, width); with stride 1 and a padding of half
the kernel, y has the same height and width. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 32
out_channels = 32
kernel_size = (3, 7)
height = 512
width = 1024
stride = (1, 1)
padding = (1, 3)


class Model(nn.Module):
    """Padded 2-D transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int]]:
    return [in_channels, out_channels, kernel_size, stride, padding]
