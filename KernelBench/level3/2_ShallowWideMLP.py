"""A shallow and wide multilayer perceptron: x of shape (batch_size, input_size) passes through one linear
layer with bias and ReLU per entry of hidden_layer_sizes and then through a last linear layer with bias and
without activation, giving (batch_size, output_size), float32.
"""

import torch
import torch.nn as nn

batch_size = 128
input_size = 16384
hidden_layer_sizes = [32768, 32768]
output_size = 16384


class Model(nn.Module):
    """Linear and ReLU alternating over a few very wide hidden layers, closed by a linear layer."""

    def __init__(self, input_size, hidden_layer_sizes, output_size):
        super().__init__()
        layers = []
        width = input_size
        for hidden_size in hidden_layer_sizes:
            layers += [nn.Linear(width, hidden_size), nn.ReLU()]
            width = hidden_size
        layers.append(nn.Linear(width, output_size))
        self.network = nn.Sequential(*layers)

    def forward(self, x):
        return self.network(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int | list[int]]:
    return [input_size, hidden_layer_sizes, output_size]
