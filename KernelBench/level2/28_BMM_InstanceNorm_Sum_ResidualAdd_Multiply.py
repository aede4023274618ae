"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); viewed as
one-channel images of height one, every row is normalised over its features (instance normalisation without
affine parameters or running statistics) to n, and the result is (n + y) * y with the second input y of shape
(batch_size, out_features). All float32."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """Linear layer, normalisation of every row, sum and product with a second input."""

    def __init__(self, in_features: int, out_features: int, eps: float = 1e-05, momentum: float = 0.1):
        super().__init__()
        self.bmm = nn.Linear(in_features, out_features)
        self.instance_norm = nn.InstanceNorm2d(out_features, eps=eps, momentum=momentum)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.bmm(x)
        x = self.instance_norm(x.unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1)
        x = x + y
        return x * y


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, in_features)
    y = torch.rand(batch_size, out_features)
    return [x, y]


def get_init_inputs() -> list[int]:
    return [in_features, out_features]
