"""2-D convolution with bias, the first layer of AlexNet alone: 3 to 96 channels, 11 x 11 kernel, stride 4,
zero padding 2. x is float32 of shape (batch_size, 3, 224, 224), y is (batch_size, 96, 55, 55) with
y[b, o, i, j] = bias[o] + sum over c, u, v of weight[o, c, u, v] * x[b, c, 4 i + u - 2, 4 j + v - 2]. The
constructor argument num_classes has no influence.
"""

import torch
import torch.nn as nn

batch_size = 256
num_classes = 1000


class Model(nn.Module):
    """First convolution of AlexNet."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, kernel_size=11, stride=4, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv1(x)


def get_inputs() -> list[torch.Tensor]:
    x = torch.rand(batch_size, 3, 224, 224)
    return [x]


def get_init_inputs() -> list[int]:
    return [num_classes]
