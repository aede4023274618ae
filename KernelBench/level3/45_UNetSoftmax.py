"""A U-Net whose activation is softmax along the width: double convolutions (twice a 3x3 convolution with
bias, batch norm and softmax over the last axis) of features, 2, 4 and 8 times features channels with 2x2 max
pooling after each, one of 16 times features at the bottom, and back up with 2x2 stride-2 transposed
convolutions, each concatenated before the encoder's map of the same size, and double convolutions, then a 1x1
convolution; batch norm uses the statistics of the batch (training mode); x has shape (batch_size,
in_channels, height, width), the result (batch_size, out_channels, height, width), float32.
"""

import torch
import torch.nn as nn

batch_size = 8
in_channels = 8
out_channels = 4
height = 64
width = 512
features = 64


class DoubleConv(nn.Module):
    """Twice a 3x3 convolution, batch norm and softmax over the width."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.Softmax(dim=-1),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1),
            nn.BatchNorm2d(out_channels),
            nn.Softmax(dim=-1),
        )

    def forward(self, x):
        return self.double_conv(x)


class Model(nn.Module):
    """A four-level U-Net with softmax activations."""

    def __init__(self, in_channels, out_channels, features):
        super().__init__()
        self.encoder1 = DoubleConv(in_channels, features)
        self.pool1 = nn.MaxPool2d(kernel_size=2, stride=2)
        self.encoder2 = DoubleConv(features, features * 2)
        self.pool2 = nn.MaxPool2d(kernel_size=2, stride=2)
        self.encoder3 = DoubleConv(features * 2, features * 4)
        self.pool3 = nn.MaxPool2d(kernel_size=2, stride=2)
        self.encoder4 = DoubleConv(features * 4, features * 8)
        self.pool4 = nn.MaxPool2d(kernel_size=2, stride=2)
        self.bottleneck = DoubleConv(features * 8, features * 16)
        self.upconv4 = nn.ConvTranspose2d(features * 16, features * 8, kernel_size=2, stride=2)
        self.decoder4 = DoubleConv(features * 16, features * 8)
        self.upconv3 = nn.ConvTranspose2d(features * 8, features * 4, kernel_size=2, stride=2)
        self.decoder3 = DoubleConv(features * 8, features * 4)
        self.upconv2 = nn.ConvTranspose2d(features * 4, features * 2, kernel_size=2, stride=2)
        self.decoder2 = DoubleConv(features * 4, features * 2)
        self.upconv1 = nn.ConvTranspose2d(features * 2, features, kernel_size=2, stride=2)
        self.decoder1 = DoubleConv(features * 2, features)
        self.final_conv = nn.Conv2d(features, out_channels, kernel_size=1)

    def forward(self, x):
        encoded1 = self.encoder1(x)
        encoded2 = self.encoder2(self.pool1(encoded1))
        encoded3 = self.encoder3(self.pool2(encoded2))
        encoded4 = self.encoder4(self.pool3(encoded3))
        x = self.bottleneck(self.pool4(encoded4))
        x = self.decoder4(torch.cat((self.upconv4(x), encoded4), dim=1))
        x = self.decoder3(torch.cat((self.upconv3(x), encoded3), dim=1))
        x = self.decoder2(torch.cat((self.upconv2(x), encoded2), dim=1))
        x = self.decoder1(torch.cat((self.upconv1(x), encoded1), dim=1))
        return self.final_conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs() -> list[int]:
    return [in_channels, out_channels, features]
