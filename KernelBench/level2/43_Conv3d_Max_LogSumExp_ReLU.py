"""A 3-D convolution maps x of shape (batch_size, in_channels, depth, height, width) to out_channels channels
at unchanged spatial size; 2x2x2 max pooling, the log-sum-exp over the channels and ReLU give shape
(batch_size, 1, depth / 2, height / 2, width / 2). All float32."""

import torch
import torch.nn as nn

batch_size = 4
in_channels = 32
out_channels = 64
depth = 32
height = 128
width = 128
kernel_size = 3
stride = 1
padding = 1


class Model(nn.Module):
    """Convolution, max pooling, log-sum-exp over channels, ReLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.max_pool = nn.MaxPool3d(kernel_size=2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        x = self.max_pool(x)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, stride, padding]
