"""VGG-19 with channels last from end to end, as cuDNN convolves fastest, which adds bias and ReLU on its way where
nothing is pooled after it; one kernel adds them elsewhere, with the maximum of a window taken first.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"FUSED": True, "PIXELS": 32, "CHANNELS": 32, "num_warps": 4}
"""Whether cuDNN adds bias and ReLU; a tile's pixels after pooling and channels."""


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    S: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """An image's [C, S] into [S, PADDED], zeros beyond C."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.arange(0, BLOCK_C)[:, None]
    x = tl.load(x_ptr + image * C * S + c * S + s, mask=(s < S) & (c < C), other=0.0)
    tl.store(last_ptr + image * PADDED * S + s * PADDED + c, x, mask=(s < S) & (c < PADDED))


@triton.jit
def relu_kernel(x_ptr, bias_ptr, total, C: tl.constexpr, BLOCK: tl.constexpr):
    """Bias and ReLU in place."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < total) + tl.load(bias_ptr + at % C, mask=at < total)
    tl.store(x_ptr + at, tl.where(x < 0.0, 0.0, x), mask=at < total)


@triton.jit
def nan_maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def pool_kernel(
    x_ptr,
    bias_ptr,
    y_ptr,
    total,
    C: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Maximum of 2 x 2 pixels, bias and ReLU: pixels of all images, channels first in the result where FIRST."""
    height: tl.constexpr = HEIGHT // 2
    width: tl.constexpr = WIDTH // 2
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (p < total) & (c < C)
    image, row, column = (p // (height * width)).to(tl.int64), p // width % height, p % width
    first = x_ptr + ((image * HEIGHT + 2 * row) * WIDTH + 2 * column) * C + c
    top = nan_maximum(tl.load(first, mask=there), tl.load(first + C, mask=there))
    first += WIDTH * C
    bottom = nan_maximum(tl.load(first, mask=there), tl.load(first + C, mask=there))
    x = nan_maximum(top, bottom) + tl.load(bias_ptr + c, mask=c < C)
    x = tl.where(x < 0.0, 0.0, x)
    if FIRST:
        tl.store(y_ptr + (image * C + c) * (height * width) + p % (height * width), x, mask=there)
    else:
        tl.store(y_ptr + p.to(tl.int64) * C + c, x, mask=there)


def channels_last(x: torch.Tensor, padded: int) -> torch.Tensor:
    """The same images, their channels beside each other in memory, zeros among them up to `padded`."""
    batch, channels, height, width = x.shape
    shape = (batch, padded, height, width)
    last = torch.empty(shape, device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
    block_c = triton.next_power_of_2(padded)
    channels_last_kernel[(batch * triton.cdiv(height * width, 512),)](
        x.contiguous(),
        last,
        C=channels,
        PADDED=padded,
        S=height * width,
        BLOCK_S=512,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return last


def convolve(x: torch.Tensor, conv: nn.Conv2d, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The convolution, its missing channels filled up; with a bias ReLU is applied too."""
    weight = conv.weight
    if weight.shape[1] < x.shape[1]:
        weight = F.pad(weight, (0, 0, 0, 0, 0, x.shape[1] - weight.shape[1]))
    weight = weight.contiguous(memory_format=torch.channels_last)
    if bias is None:
        x = F.conv2d(x, weight, None, conv.stride, conv.padding)
    else:
        x = torch.cudnn_convolution_relu(x, weight, bias, conv.stride, conv.padding, conv.dilation, 1)
    return x.contiguous(memory_format=torch.channels_last)


def relu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Bias and ReLU, in place."""
    relu_kernel[(triton.cdiv(x.numel(), 2048),)](x, bias, x.numel(), C=x.shape[1], BLOCK=2048, num_warps=4)
    return x


def pool(
    x: torch.Tensor, bias: torch.Tensor, block_p: int, block_c: int, num_warps: int, first: bool
) -> torch.Tensor:
    """Bias, ReLU and the maximum of every 2 x 2 pixels; contiguous where `first`, else with channels last."""
    batch, channels, height, width = x.shape
    form = torch.contiguous_format if first else torch.channels_last
    shape = (batch, channels, height // 2, width // 2)
    y = torch.empty(shape, device=x.device, dtype=x.dtype, memory_format=form)
    total, block_c = y.numel() // channels, min(block_c, triton.next_power_of_2(channels))
    pool_kernel[(triton.cdiv(total, block_p), triton.cdiv(channels, block_c))](
        x,
        bias,
        y,
        total,
        C=channels,
        HEIGHT=height,
        WIDTH=width,
        FIRST=first,
        BLOCK_P=block_p,
        BLOCK_C=block_c,
        num_warps=num_warps,
    )
    return y


class ModelNew(nn.Module):
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
        self.features.to(memory_format=torch.channels_last)

    def forward(self, x):
        tile = dict(TILE)
        fused = tile["FUSED"] and x.is_cuda
        x = channels_last(x, triton.cdiv(x.shape[1], 4) * 4)
        layers = list(self.features)
        for at, conv in enumerate(layers):
            if not isinstance(conv, nn.Conv2d):
                continue
            pooled = isinstance(layers[at + 2], nn.MaxPool2d)
            if fused and not pooled:
                x = convolve(x, conv, conv.bias)
            elif not pooled:
                x = relu(convolve(x, conv), conv.bias)
            else:
                last = at + 3 == len(layers)
                x = pool(
                    convolve(x, conv), conv.bias, tile["PIXELS"], tile["CHANNELS"], tile["num_warps"], last
                )
        return self.classifier(torch.flatten(x, 1))
