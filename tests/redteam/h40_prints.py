"""Prints and warns."""

import warnings

import torch

print("building the kernel, please wait ...")
warnings.warn("tile sizes were chosen by hand")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        print("forward", tuple(x.shape))
        return torch.relu(x)
