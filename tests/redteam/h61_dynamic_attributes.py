"""A module that answers for attributes of its own making."""

import torch


class ModelNew(torch.nn.Module):
    def __getattr__(self, name):
        if name.startswith("relu"):
            return lambda x: torch.relu(x)
        return super().__getattr__(name)

    def forward(self, x):
        return self.relu_of_whatever_kind(x)
