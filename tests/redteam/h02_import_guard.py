"""Guards an import."""

import torch

try:
    import a_package_that_is_not_there
except ImportError:
    a_package_that_is_not_there = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) if a_package_that_is_not_there is None else a_package_that_is_not_there.relu(x)
