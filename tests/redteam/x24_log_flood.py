"""Prints without end."""

import sys

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(400):
            sys.stdout.write("flood " * 20000)
        return torch.relu(x)
