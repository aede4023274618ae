"""VGG-19: sixteen 3x3 convolutions with bias and ReLU in five groups of 64, 128, 256, 512 and 512 channels,
each group closed by 2x2 max pooling, then two hidden linear layers of 4096 with ReLU and dropout of
probability 0 and a linear layer to num_classes, all with PyTorch's default initialisation; x has shape
(batch_size, 3, 224, 224), the logits have shape (batch_size, num_classes), float32.
"""

import torch
import torch.nn as nn

batch_size = 10
num_classes = 1000


class Model(nn.Module):
    """The VGG-19 classifier without batch norm."""

    def __init__(self, num_classes=1000):
        super().__init__()
        features = []
        in_channels = 3
        for channels, convolutions in zip((64, 128, 256, 512, 512), (2, 2, 4, 4, 4)):
            for _ in range(convolutions):
                features += [
                    nn.Conv2d(in_channels, channels, kernel_size=3, padding=1),
                    nn.ReLU(inplace=True),
                ]
                in_channels = channels
            features.append(nn.MaxPool2d(kernel_size=2, stride=2))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=0.0),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=0.0),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 3, 224, 224)]


def get_init_inputs() -> list[int]:
    return [num_classes]
