"""Transposed convolution with channels last, as cuDNN convolves fastest: one pass lays the input out so, and
one takes the result back. At stride 1 it is a convolution of the flipped weights, which cuDNN has more
kernels for.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"FORWARD": True, "PIXELS": 64, "CHANNELS": 64, "num_warps": 4}


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
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    x = tl.load(x_ptr + image * C * S + c * S + s, mask=(s < S) & (c < C), other=0.0)
    tl.store(last_ptr + image * PADDED * S + s * PADDED + c, x, mask=(s < S) & (c < PADDED))


@triton.jit
def channels_first_kernel(
    last_ptr, y_ptr, C: tl.constexpr, S: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_C: tl.constexpr
):
    """An image's [S, C] into [C, S]."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    x = tl.load(last_ptr + first + s * C + c, mask=there)
    tl.store(y_ptr + first + c * S + s, x, mask=there)


def channels_last(x: torch.Tensor, padded: int) -> torch.Tensor:
    """The same tensor, its channels beside each other in memory, zeros among them up to `padded`."""
    batch, channels, *spatial = x.shape
    last = torch.empty(
        (batch, padded, *spatial), device=x.device, dtype=x.dtype, memory_format=torch.channels_last
    )
    pixels, block_c = x[0, 0].numel(), min(32, triton.next_power_of_2(padded))
    block_s = 2048 // block_c
    grid = (batch * triton.cdiv(pixels, block_s), triton.cdiv(padded, block_c))
    channels_last_kernel[grid](
        x.contiguous(),
        last,
        C=channels,
        PADDED=padded,
        S=pixels,
        BLOCK_S=block_s,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return last


def channels_first(last: torch.Tensor, block_s: int, block_c: int, num_warps: int) -> torch.Tensor:
    """The same tensor, contiguous."""
    last = last.contiguous(memory_format=torch.channels_last)
    y = torch.empty(last.shape, device=last.device, dtype=last.dtype)
    channels, pixels = y.shape[1], y[0, 0].numel()
    grid = (y.shape[0] * triton.cdiv(pixels, block_s), triton.cdiv(channels, block_c))
    channels_first_kernel[grid](
        last, y, C=channels, S=pixels, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=num_warps
    )
    return y


class ModelNew(nn.Module):
    """2-D transposed convolution with a rectangular kernel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        output_padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = False,
    ):
        super().__init__()
        self.conv_transpose2d = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
            dilation=dilation,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile = self.conv_transpose2d, dict(TILE)
        x = channels_last(x, x.shape[1])
        plain = conv.groups == 1 and set(conv.stride) == {1} and set(conv.output_padding) == {0}
        if plain and tile["FORWARD"]:
            weight = conv.weight.flip(2, 3).transpose(0, 1).contiguous(memory_format=torch.channels_last)
            sizes = zip(conv.dilation, conv.kernel_size, conv.padding, strict=True)
            padding = [step * (size - 1) - cut for step, size, cut in sizes]
            last = F.conv2d(x, weight, conv.bias, 1, padding, conv.dilation)
        else:
            weight = conv.weight.contiguous(memory_format=torch.channels_last)
            last = F.conv_transpose2d(
                x,
                weight,
                conv.bias,
                conv.stride,
                conv.padding,
                conv.output_padding,
                conv.groups,
                conv.dilation,
            )
        return channels_first(last, tile["PIXELS"], tile["CHANNELS"], tile["num_warps"])
