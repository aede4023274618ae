"""A plain convolutional classifier in the manner of RegNet: one stage per entry of block_widths, each of two
3x3 convolutions with bias, batch norm and ReLU and a 2x2 max pooling, then the mean over height and width and
a linear layer; batch norm uses the statistics of the batch (training mode); x has shape (batch_size,
input_channels, image_height, image_width), the logits have shape (batch_size, output_classes), float32.
"""

import torch
import torch.nn as nn

batch_size = 8
input_channels = 3
image_height = 224
image_width = 224
stages = 3
block_widths = [64, 128, 256]
output_classes = 10


class Model(nn.Module):
    """Stages of two convolutions and a pooling, closed by a mean and a linear layer."""

    def __init__(self, input_channels, stages, block_widths, output_classes):
        super().__init__()
        self.stages = stages
        self.block_widths = block_widths
        layers = []
        channels = input_channels
        for index in range(stages):
            layers.append(self._stage(channels, block_widths[index]))
            channels = block_widths[index]
        self.feature_extractor = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, output_classes)

    @staticmethod
    def _stage(in_channels, out_channels):
        return nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )

    def forward(self, x):
        return self.fc(torch.mean(self.feature_extractor(x), dim=[2, 3]))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_channels, image_height, image_width)]


def get_init_inputs() -> list[int | list[int]]:
    return [input_channels, stages, block_widths, output_classes]
