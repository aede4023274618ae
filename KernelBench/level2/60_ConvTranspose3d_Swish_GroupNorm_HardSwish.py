"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; swish, group normalisation with `groups`
groups, and hard swish follow. All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
groups = 4
eps = 1e-05


class Model(nn.Module):
    """Transposed convolution, swish, group norm, hard swish."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        groups: int,
        eps: float,
        bias: bool = True,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = torch.sigmoid(x) * x
        x = self.group_norm(x)
        return F.hardswish(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | float]:
    return [in_channels, out_channels, kernel_size, stride, padding, groups, eps]
