"""3-D convolution with a kernel that is flat along the last axis, as 2-D convolutions of the slices along it,
with channels last, as cuDNN convolves fastest: one pass lays the input out so, and one takes the result
back. Channels are filled up with zeros to a number whose rows cuDNN can read sixteen bytes at a time.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn

TILE = {"EVEN": 4, "PIXELS": 64, "CHANNELS": 64, "num_warps": 4}


@triton.jit
def channels_last_kernel(
    x_ptr,
    last_ptr,
    C: tl.constexpr,
    PADDED: tl.constexpr,
    S: tl.constexpr,
    Q: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """An image's [C, S], S being pixels of Q slices, into [Q, S / Q, PADDED], zeros beyond C."""
    blocks = tl.cdiv(S, BLOCK_S)
    image = (tl.program_id(0) // blocks).to(tl.int64)
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[None, :]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    x = tl.load(x_ptr + image * C * S + c * S + s, mask=(s < S) & (c < C), other=0.0)
    place = (s % Q) * (S // Q) + s // Q
    tl.store(last_ptr + image * PADDED * S + place * PADDED + c, x, mask=(s < S) & (c < PADDED))


@triton.jit
def channels_first_kernel(
    last_ptr,
    y_ptr,
    C: tl.constexpr,
    S: tl.constexpr,
    Q: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """An image's [Q, S / Q, C] into [C, S], S being pixels of Q slices."""
    blocks = tl.cdiv(S, BLOCK_S)
    first = (tl.program_id(0) // blocks).to(tl.int64) * C * S
    s = (tl.program_id(0) % blocks) * BLOCK_S + tl.arange(0, BLOCK_S)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    there = (s < S) & (c < C)
    place = (s % Q) * (S // Q) + s // Q
    x = tl.load(last_ptr + first + place * C + c, mask=there)
    tl.store(y_ptr + first + c * S + s, x, mask=there)


def slices_last(x: torch.Tensor, padded: int) -> torch.Tensor:
    """The slices along the last axis as images, channels beside each other, zeros among them up to `padded`."""
    batch, channels, *sizes, slices = x.shape
    shape = (batch * slices, padded, *sizes)
    last = torch.empty(shape, device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
    pixels, block_c = x[0, 0].numel(), min(32, triton.next_power_of_2(padded))
    block_s = 2048 // block_c
    grid = (batch * triton.cdiv(pixels, block_s), triton.cdiv(padded, block_c))
    channels_last_kernel[grid](
        x.contiguous(),
        last,
        C=channels,
        PADDED=padded,
        S=pixels,
        Q=slices,
        BLOCK_S=block_s,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return last


def slices_back(last: torch.Tensor, slices: int, block_s: int, block_c: int, num_warps: int) -> torch.Tensor:
    """What `slices_last` made of a tensor, taken back."""
    last = last.contiguous(memory_format=torch.channels_last)
    images, channels, *sizes = last.shape
    y = torch.empty((images // slices, channels, *sizes, slices), device=last.device, dtype=last.dtype)
    pixels = y[0, 0].numel()
    grid = (len(y) * triton.cdiv(pixels, block_s), triton.cdiv(channels, block_c))
    channels_first_kernel[grid](
        last, y, C=channels, S=pixels, Q=slices, BLOCK_S=block_s, BLOCK_C=block_c, num_warps=num_warps
    )
    return y


class ModelNew(nn.Module):
    """3-D convolution with a kernel that is flat along the last axis."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ):
        super().__init__()
        self.conv3d = nn.Conv3d(
            in_channels,
            out_channels,
            (kernel_size, kernel_size, 1),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv, tile, slices = self.conv3d, dict(TILE), x.shape[-1]
        flat = (conv.kernel_size[2], conv.stride[2], conv.padding[2]) == (1, 1, 0)
        if conv.groups > 1 or not flat:
            raise ValueError("this kernel is written for one group, and for slices apart from each other")
        padded = triton.cdiv(x.shape[1], tile["EVEN"]) * tile["EVEN"]
        weight = F.pad(conv.weight.squeeze(-1), (0, 0) * 2 + (0, padded - x.shape[1]))
        last = F.conv2d(
            slices_last(x, padded),
            weight.contiguous(memory_format=torch.channels_last),
            conv.bias,
            conv.stride[:2],
            conv.padding[:2],
            conv.dilation[:2],
        )
        return slices_back(last, slices, tile["PIXELS"], tile["CHANNELS"], tile["num_warps"])
