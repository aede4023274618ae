"""Multilayer perceptron with every ReLU in place: each hidden layer writes its memory once."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Linear and ReLU alternating, closed by a linear layer."""

    def __init__(self, input_size: int, layer_sizes: list[int], output_size: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = input_size
        for layer_size in layer_sizes:
            layers += [nn.Linear(width, layer_size), nn.ReLU(inplace=True)]
            width = layer_size
        layers.append(nn.Linear(width, output_size))
        self.network = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)
