"""A 3-D transposed convolution maps x of shape (batch_size, in_channels, depth, height, width) to
out_channels channels, each spatial size n becoming 2 * n - 1; with v the log-sum-exp over the channels (kept
with size one), v * sigmoid(v + 3) / 6 is taken (not the usual hard swish), a learned bias of shape (1, 1, 1,
1) is subtracted, and the difference is clamped to [-1, 1]. The constructor argument bias_shape has no
influence. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
bias_shape = (1, 1, 1, 1)


class Model(nn.Module):
    """Transposed convolution, log-sum-exp over channels, sigmoid gate, subtraction, clamp."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        bias_shape: tuple[int, ...],
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_transpose(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6
        x = x - self.bias
        return torch.clamp(x, min=-1, max=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int | tuple[int, ...]]:
    return [in_channels, out_channels, kernel_size, stride, padding, bias_shape]
