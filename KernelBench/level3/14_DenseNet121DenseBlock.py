"""A dense block of num_layers layers: each takes the channel-wise concatenation of the input and all earlier
layers' outputs through batch normalisation with the statistics of the batch (training mode), ReLU, a 3x3
convolution to growth_rate channels without bias and dropout of probability 0; x has shape (batch_size,
num_input_features, height, width), the result is the whole concatenation of num_input_features + num_layers *
growth_rate channels, float32.
"""

import torch
import torch.nn as nn

batch_size = 10
num_layers = 6
num_input_features = 32
growth_rate = 32
height = 224
width = 224


class Model(nn.Module):
    """A DenseNet block without 1x1 bottleneck convolutions."""

    def __init__(self, num_layers, num_input_features, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            self._layer(num_input_features + index * growth_rate, growth_rate) for index in range(num_layers)
        )

    @staticmethod
    def _layer(in_features, growth_rate):
        return nn.Sequential(
            nn.BatchNorm2d(in_features),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_features, growth_rate, kernel_size=3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(x))
            x = torch.cat(features, dim=1)
        return x


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, num_input_features, height, width)]


def get_init_inputs() -> list[int]:
    return [num_layers, num_input_features, growth_rate]
