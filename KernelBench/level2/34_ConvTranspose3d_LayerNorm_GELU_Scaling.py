"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, D, H, W) to out_channels channels,
doubling all three spatial sizes; layer normalisation over the last axis (the doubled width, which therefore
has to equal out_channels; it is not the channel axis), exact GELU and a factor scaling_factor follow. All
float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
in_channels = 32
out_channels = 64
D = 16
H = 32
W = 32
kernel_size = 4
stride = 2
padding = 1
bias = True
eps = 1e-05
scaling_factor = 1.0


class Model(nn.Module):
    """Transposed convolution, layer norm over the width, GELU, scale."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias: bool = True,
        eps: float = 1e-05,
        scaling_factor: float = 1.0,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, bias=bias
        )
        self.layer_norm = nn.LayerNorm(out_channels, eps=eps)
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = self.layer_norm(x)
        x = F.gelu(x)
        return x * self.scaling_factor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, D, H, W)]


def get_init_inputs() -> list[int | float | bool]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias, eps, scaling_factor]
