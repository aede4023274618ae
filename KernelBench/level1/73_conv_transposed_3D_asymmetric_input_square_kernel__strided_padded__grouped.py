"""3-D transposed convolution with a cubic kernel and a stride: each x[b, c, p] adds weight[c, o, q] *
x[b, c, p] to y[b, o, p * stride + q - padding] for every o and every kernel offset q; what falls outside is
dropped. x is float32 of shape (batch_size, in_channels, depth, height, width); each spatial size n becomes (n
- 1) * stride - 2 * padding + kernel_size in y. There is no bias. Despite the name nothing is grouped: the
value of the constant groups arrives in the constructor argument output_padding, which is not used.
"""

import torch
import torch.nn as nn

batch_size = 4
in_channels = 32
out_channels = 32
kernel_size = 3
depth = 32
height = 64
width = 128
stride = 2
padding = 1
groups = 4


class Model(nn.Module):
    """Strided, padded 3-D transposed convolution."""

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
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose3d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, depth, height, width)
    return [x]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding, groups]
