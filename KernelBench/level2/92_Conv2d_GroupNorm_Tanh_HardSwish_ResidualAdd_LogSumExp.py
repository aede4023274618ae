"""A 2-D convolution without padding maps x of shape (batch_size, in_channels, height, width) to (batch_size,
out_channels, height - kernel_size + 1, width - kernel_size + 1); with c the result, g is c after group
normalisation with `groups` groups, tanh and hard swish, and the output is the log-sum-exp of c + g over the
channels (kept with size one). All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 128
width = 128
kernel_size = 3
groups = 16


class Model(nn.Module):
    """Convolution plus its normalised and activated self, log-sum-exp over channels."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, groups: int, eps: float = 1e-05
    ):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(groups, out_channels, eps=eps)
        self.tanh = nn.Tanh()
        self.hard_swish = nn.Hardswish()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        convolved = self.conv(x)
        x = self.group_norm(convolved)
        x = self.tanh(x)
        x = self.hard_swish(x)
        x = convolved + x
        return torch.logsumexp(x, dim=1, keepdim=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, kernel_size, groups]
