"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); the elementwise
minimum with a learned scalar, which starts at constant, is taken and the scalar subtracted. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_features = 16384
out_features = 16384
constant = 2.0


class Model(nn.Module):
    """Linear layer, minimum with and subtraction of a learned scalar."""

    def __init__(self, in_features: int, out_features: int, constant: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.constant = nn.Parameter(torch.tensor(constant))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = torch.min(x, self.constant)
        return x - self.constant


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, constant]
