"""x of shape (batch_size, input_size) is multiplied by the transpose of a learned weight of shape
(hidden_size, input_size), drawn from a standard normal without scaling; the product is divided by 2, summed
over the hidden axis and multiplied by scaling_factor, giving shape (batch_size, 1). All float32."""

import torch
import torch.nn as nn

batch_size = 1024
input_size = 8192
hidden_size = 8192
scaling_factor = 1.5


class Model(nn.Module):
    """Matrix product, halving, row sum, scale."""

    def __init__(self, input_size: int, hidden_size: int, scaling_factor: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden_size, input_size))
        self.scaling_factor = scaling_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.matmul(x, self.weight.T)
        x = x / 2
        x = torch.sum(x, dim=1, keepdim=True)
        return x * self.scaling_factor


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, scaling_factor]
