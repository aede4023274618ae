"""A deep and narrow multilayer perceptron: x of shape (batch_size, input_size) passes through one linear
layer with bias and ReLU per entry of hidden_layer_sizes (sixteen of equal width) and then through a last
linear layer with bias and without activation, giving (batch_size, output_size), float32.
"""

import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_layer_sizes = [1024] * 16
output_size = 8192


class Model(nn.Module):
    """Linear and ReLU alternating over many narrow hidden layers, closed by a linear layer."""

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
