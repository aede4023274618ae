"""The same: it fails where what the kernel before it wrote is still there."""

import os

import torch

mark = "/tmp/redteam-was-here"
if os.path.exists(mark):
    raise RuntimeError("another kernel left a file")
with open(mark, "w") as file:
    file.write("here")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
