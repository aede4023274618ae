"""2-D transposed convolution, grouped, strided, padded and dilated: within each of the groups, x[b, c, p]
adds weight[c, o, q] * x[b, c, p] to y[b, o, p * stride + q * dilation - padding] for every output channel o
of the group and every kernel offset q; what falls outside is dropped. x is float32 of shape (batch_size,
in_channels, height, width); the spatial size n of axis a becomes (n - 1) * stride[a] - 2 * padding[a] +
dilation[a] * (kernel_size[a] - 1) + 1 in y. There is no bias.
"""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
kernel_size = (3, 5)
height = 128
width = 256
stride = (2, 3)
padding = (1, 2)
dilation = (2, 1)
groups = 4


class Model(nn.Module):
    """Grouped 2-D transposed convolution with stride, padding and dilation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv_transpose2d(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_channels, height, width)
    return [x]


def get_init_inputs() -> list[int | tuple[int, int]]:
    return [in_channels, out_channels, kernel_size, stride, padding, dilation, groups]
