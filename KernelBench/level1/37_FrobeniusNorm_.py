"""Division by the Frobenius norm, y = x / sqrt(sum of x^2), where the sum runs over all elements of the
tensor including the batch, so that the norm is one number; no epsilon is added. x and y are float32 of shape
(batch_size, features, dim1, dim2).
"""

import torch
import torch.nn as nn

batch_size = 112
features = 64
dim1 = 512
dim2 = 512


class Model(nn.Module):
    """Divide a tensor by its Frobenius norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.norm(x, p="fro")


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]


def get_init_inputs() -> list[object]:
    return []
