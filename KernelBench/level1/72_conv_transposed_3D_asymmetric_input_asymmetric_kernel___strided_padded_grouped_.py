"""3-D transposed convolution, grouped and strided: within each of the groups, x[b, c, p] adds weight[c, o, q]
* x[b, c, p] to y[b, o, p * stride + q - padding] for every output channel o of the group and every kernel
offset q; what falls outside is dropped. x is float32 of shape (batch_size, in_channels, depth, height,
width); the spatial size n of axis a becomes (n - 1) * stride[a] - 2 * padding[a] + kernel_size[a] +
output_padding[a] in y, here exactly twice n. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 32
out_channels = 32
kernel_size = (3, 5, 7)
depth = 12
height = 24
width = 48
stride = (2, 2, 2)
padding = (1, 2, 3)
output_padding = (1, 1, 1)
groups = 4


class Model(nn.Module):
    """Strided, padded, grouped 3-D transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int, int],
        stride: tuple[int, int, int] = (1, 1, 1),
        padding: tuple[int, int, int] = (0, 0, 0),
        output_padding: tuple[int, int, int] = (0, 0, 0),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
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


def get_init_inputs() -> list[int | tuple[int, int, int]]:
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, groups]
