"""A linear layer maps x of shape (batch_size, in_features) to (batch_size, out_features); dropout with
probability dropout_p is active because the model stays in training mode, so every forward draws random
numbers and the output depends on the generator state; softmax over the features follows. All float32."""

import torch
import torch.nn as nn

batch_size = 128
in_features = 16384
out_features = 16384
dropout_p = 0.2


class Model(nn.Module):
    """Linear layer, active dropout, softmax."""

    def __init__(self, in_features: int, out_features: int, dropout_p: float):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x)
        x = self.dropout(x)
        return torch.softmax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int | float]:
    return [in_features, out_features, dropout_p]
