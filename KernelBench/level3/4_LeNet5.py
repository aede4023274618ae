"""LeNet-5 on single-channel 32x32 images: two stages of 5x5 convolution with bias, ReLU and 2x2 max pooling,
then three linear layers (400 to 120 to 84 to num_classes) with ReLU between them; x has shape (batch_size, 1,
32, 32), the logits have shape (batch_size, num_classes), float32.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
num_classes = 20


class Model(nn.Module):
    """The LeNet-5 classifier with ReLU activations and max pooling."""

    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), kernel_size=2, stride=2)
        x = F.max_pool2d(F.relu(self.conv2(x)), kernel_size=2, stride=2)
        x = x.view(-1, 16 * 5 * 5)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 1, 32, 32)]


def get_init_inputs() -> list[int]:
    return [num_classes]
