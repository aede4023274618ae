"""The fire module of SqueezeNet: a 1x1 convolution with ReLU squeezes x of shape (batch_size,
num_input_features, height, width) to squeeze_channels maps, from which a 1x1 and a padded 3x3 convolution,
each with bias and ReLU, are computed and concatenated along the channels to expand1x1_channels +
expand3x3_channels maps of the same size, float32. The constant num_output_features has no influence.
"""

import torch
import torch.nn as nn

batch_size = 128
num_input_features = 3
num_output_features = 64
height = 256
width = 256
squeeze_channels = 6
expand1x1_channels = 64
expand3x3_channels = 64


class Model(nn.Module):
    """A squeezing 1x1 convolution followed by parallel 1x1 and 3x3 expansions."""

    def __init__(self, in_channels, squeeze_channels, expand1x1_channels, expand3x3_channels):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze_channels, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_channels, expand1x1_channels, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_channels, expand3x3_channels, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        squeezed = self.squeeze_activation(self.squeeze(x))
        pointwise = self.expand1x1_activation(self.expand1x1(squeezed))
        spatial = self.expand3x3_activation(self.expand3x3(squeezed))
        return torch.cat([pointwise, spatial], dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, num_input_features, height, width)]


def get_init_inputs() -> list[int]:
    return [num_input_features, squeeze_channels, expand1x1_channels, expand3x3_channels]
