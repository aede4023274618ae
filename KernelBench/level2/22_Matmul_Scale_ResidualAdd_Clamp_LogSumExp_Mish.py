"""A linear layer maps x of shape (batch_size, input_size) to (batch_size, hidden_size); it is multiplied by
scale_factor, added to itself and clamped to [clamp_min, clamp_max]; with s the log-sum-exp over the hidden
axis, the result s * mish(s) has shape (batch_size, 1). All float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 1024
input_size = 8192
hidden_size = 8192
scale_factor = 2.0
clamp_min = -10.0
clamp_max = 10.0


class Model(nn.Module):
    """Linear layer, scale, doubling, clamp, log-sum-exp, self-gated Mish."""

    def __init__(
        self, input_size: int, hidden_size: int, scale_factor: float, clamp_min: float, clamp_max: float
    ):
        super().__init__()
        self.matmul = nn.Linear(input_size, hidden_size)
        self.scale_factor = scale_factor
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = x * self.scale_factor
        x = x + x
        x = torch.clamp(x, self.clamp_min, self.clamp_max)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return x * F.mish(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, input_size)]


def get_init_inputs() -> list[int | float]:
    return [input_size, hidden_size, scale_factor, clamp_min, clamp_max]
