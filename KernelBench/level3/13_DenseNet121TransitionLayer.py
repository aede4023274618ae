"""The transition between two dense blocks: batch normalisation with the statistics of the batch (training
mode), ReLU, a 1x1 convolution without bias and 2x2 average pooling; x has shape (batch_size,
num_input_features, height, width), the result (batch_size, num_output_features, height / 2, width / 2),
float32.
"""

import torch
import torch.nn as nn

batch_size = 128
num_input_features = 32
num_output_features = 64
height = 256
width = 256


class Model(nn.Module):
    """Batch norm, ReLU, 1x1 convolution and average pooling in sequence."""

    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.transition = nn.Sequential(
            nn.BatchNorm2d(num_input_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )

    def forward(self, x):
        return self.transition(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, num_input_features, height, width)]


def get_init_inputs() -> list[int]:
    return [num_input_features, num_output_features]
