"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); it is multiplied by
scaling_factor, clamped to [hardtanh_min, hardtanh_max], and exact GELU is applied. All float32."""

import torch
import torch.nn as nn

batch_size = 2048
in_features = 8192
out_features = 8192
scaling_factor = 0.5
hardtanh_min = -2
hardtanh_max = 2


class Model(nn.Module):
    """Linear layer, scale, hardtanh, GELU."""

    def __init__(
        self, in_features: int, out_features: int, scaling_factor: float, hardtanh_min: int, hardtanh_max: int
    ):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.scaling_factor = scaling_factor
        self.hardtanh = nn.Hardtanh(min_val=hardtanh_min, max_val=hardtanh_max)
        self.gelu = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gemm(x)
        x = x * self.scaling_factor
        x = self.hardtanh(x)
        return self.gelu(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, scaling_factor, hardtanh_min, hardtanh_max]
