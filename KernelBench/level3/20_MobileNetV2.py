"""MobileNet v2 without residual connections: a 3x3 stride-2 convolution, seventeen inverted bottlenecks (1x1
expansion, 3x3 depthwise and 1x1 projection convolutions, each with batch norm, the first two with ReLU6) that
are merely chained, a 1x1 convolution to 1280 channels, global average pooling, dropout of probability 0 and a
linear layer; batch norm uses the statistics of the batch (training mode); x has shape (batch_size, 3, 224,
224), the logits have shape (batch_size, num_classes), float32. All layers are first initialised by default
and then drawn again: convolutions from the Kaiming normal distribution (fan-out), the linear layer from N(0,
0.01) with zero bias.
"""

import torch
import torch.nn as nn

batch_size = 10
num_classes = 1000


def inverted_bottleneck(in_channels, out_channels, stride, expand_ratio):
    """Expand (unless the ratio is 1), filter depthwise and project; there is no shortcut."""
    hidden = in_channels * expand_ratio
    layers = []
    if expand_ratio != 1:
        layers += [
            nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
        ]
    layers += [
        nn.Conv2d(hidden, hidden, kernel_size=3, stride=stride, padding=1, groups=hidden, bias=False),
        nn.BatchNorm2d(hidden),
        nn.ReLU6(inplace=True),
        nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
        nn.BatchNorm2d(out_channels),
    ]
    return nn.Sequential(*layers)


class Model(nn.Module):
    """A MobileNet v2 classifier whose blocks have no shortcuts."""

    def __init__(self, num_classes=1000):
        super().__init__()
        # Expansion ratio, output channels, number of blocks and stride of the first block.
        stages = [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ]
        channels = 32
        features = [
            nn.Conv2d(3, channels, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU6(inplace=True),
        ]
        for expand_ratio, out_channels, blocks, stride in stages:
            for index in range(blocks):
                block_stride = stride if index == 0 else 1
                features.append(inverted_bottleneck(channels, out_channels, block_stride, expand_ratio))
                channels = out_channels
        features += [
            nn.Conv2d(channels, 1280, kernel_size=1, bias=False),
            nn.BatchNorm2d(1280),
            nn.ReLU6(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        ]
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(1280, num_classes))
        self._initialise()

    def _initialise(self):
        """Draw the weights again, module by module in registration order."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0.0, std=0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.view(x.size(0), -1))


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, 3, 224, 224)]


def get_init_inputs() -> list[int]:
    return [num_classes]
