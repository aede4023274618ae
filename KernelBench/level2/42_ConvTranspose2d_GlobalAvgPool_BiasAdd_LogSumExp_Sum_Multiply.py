"""A 2-D transposed convolution maps x of shape (batch_size, in_channels, height, width) to out_channels
channels; the mean over height and width, a learned bias of shape bias_shape, the log-sum-exp over the
channels, the sum over the two remaining spatial axes of size one and a factor of 10 give shape (batch_size,
1). All float32."""

import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
height = 512
width = 512
kernel_size = 3
bias_shape = (out_channels, 1, 1)


class Model(nn.Module):
    """Transposed convolution, spatial mean, bias, log-sum-exp over channels, sum, factor ten."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, bias_shape: tuple[int, ...]):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = torch.mean(x, dim=(2, 3), keepdim=True)
        x = x + self.bias
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = torch.sum(x, dim=(2, 3))
        return x * 10.0


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, bias_shape]
