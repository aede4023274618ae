"""The norm taken by another function of the library: the same work.

kind: library
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return torch.div(x, torch.linalg.vector_norm(x))
