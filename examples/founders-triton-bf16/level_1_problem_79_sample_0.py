"""1-D transposed convolution with stride, padding and dilation on the tensor cores.

One pass: a tile reads its input as it lies, shifted for each tap, which the cache holds after the first. The stride
divides the dilation, so that only one output in STRIDE gets anything; the others are written as zeros.

Inputs, weights and outputs are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"WIDE": True, "BLOCK": 128, "num_warps": 4, "num_stages": 1}


@triton.jit
def pack_kernel(
    weight_ptr,
    packed_ptr,
    total,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    TAPS: tl.constexpr,
    C: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [tap, output, input]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = index % C
    o = index // C % LANES
    tap = index // (C * LANES)
    there = (index < total) & (c < CHANNELS) & (o < OUTPUTS)
    weight = tl.load(weight_ptr + (c * OUTPUTS + o) * TAPS + tap, mask=there, other=0.0)
    tl.store(packed_ptr + index, weight, mask=index < total)


@triton.jit
def conv_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    LENGTH: tl.constexpr,
    OUT_LENGTH: tl.constexpr,
    TAPS: tl.constexpr,
    STRIDE: tl.constexpr,
    PLACE: tl.constexpr,
    LEAD: tl.constexpr,
    DISTANCE: tl.constexpr,
    C: tl.constexpr,
    LANES: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK groups of STRIDE neighbouring outputs, of all channels; the one at PLACE in a group gets the product.

    Positions are the rows of the product if WIDE, and channels else, which suits the instructions of few warps.
    """
    blocks: tl.constexpr = (OUT_LENGTH + BLOCK * STRIDE - 1) // (BLOCK * STRIDE)
    sample = (tl.program_id(0) // blocks).to(tl.int64)
    first = tl.program_id(0) % blocks * BLOCK
    c = tl.arange(0, C)
    o = tl.arange(0, LANES)
    x_ptrs = x_ptr + sample * (CHANNELS * LENGTH) + c[:, None] * LENGTH
    w_ptrs = w_ptr + o[:, None] * C + c[None, :]
    if WIDE:
        y = tl.zeros([BLOCK, LANES], tl.float32)
    else:
        y = tl.zeros([LANES, BLOCK], tl.float32)
    for tap in range(TAPS):
        i = first + LEAD - tap * DISTANCE + tl.arange(0, BLOCK)
        mask = (c < CHANNELS)[:, None] & ((i >= 0) & (i < LENGTH))[None, :]
        x = tl.load(x_ptrs + i[None, :], mask=mask, other=0.0)
        w = tl.load(w_ptrs + tap * (LANES * C))
        if WIDE:
            y = tl.dot(tl.trans(x), tl.trans(w), y)
        else:
            y = tl.dot(w, x, y)
    if WIDE:
        y = tl.trans(y)
    if STRIDE == 2:
        nothing = tl.zeros([LANES, BLOCK], tl.float32)
        if PLACE == 0:
            y = tl.interleave(y, nothing)
        else:
            y = tl.interleave(nothing, y)
    position = first * STRIDE + tl.arange(0, BLOCK * STRIDE)
    y_ptrs = y_ptr + sample * (OUTPUTS * OUT_LENGTH) + o[:, None] * OUT_LENGTH + position[None, :]
    tl.store(y_ptrs, y, mask=(o < OUTPUTS)[:, None] & (position < OUT_LENGTH)[None, :])


def convolve_transposed(x: torch.Tensor, conv: nn.ConvTranspose1d) -> torch.Tensor:
    """A transposed convolution whose stride is 1 or 2 and divides the dilation."""
    x, weight = x.contiguous(), conv.weight.contiguous()
    (taps,), (stride,), (padding,), (dilation,) = (
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
    )
    batch, channels, length = x.shape
    outputs = weight.shape[1]
    out_length = (length - 1) * stride - 2 * padding + dilation * (taps - 1) + 1
    if max(channels * length, outputs * (out_length + 1024)) >= 2**31:
        raise ValueError("this kernel is written for samples of fewer than 2^31 elements")
    tile = dict(TILE)
    sizes = {
        "CHANNELS": channels,
        "OUTPUTS": outputs,
        "TAPS": taps,
        "C": max(16, triton.next_power_of_2(channels)),
        "LANES": max(16, triton.next_power_of_2(outputs)),
    }
    total = taps * sizes["LANES"] * sizes["C"]
    packed = torch.empty(total, device=x.device, dtype=x.dtype)
    y = torch.empty((batch, outputs, out_length), device=x.device, dtype=x.dtype)
    pack_kernel[(triton.cdiv(total, 512),)](weight, packed, total, BLOCK=512, num_warps=4, **sizes)
    place = -padding % stride
    conv_kernel[(batch * triton.cdiv(out_length, tile["BLOCK"] * stride),)](
        x,
        packed,
        y,
        LENGTH=length,
        OUT_LENGTH=out_length,
        STRIDE=stride,
        PLACE=place,
        LEAD=(padding + place) // stride,
        DISTANCE=dilation // stride,
        **sizes,
        **tile,
    )
    return y


class ModelNew(nn.Module):
    """Strided, padded, dilated 1-D transposed convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1d_transpose = nn.ConvTranspose1d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=bias,
        )
        if bias or stride not in (1, 2) or dilation % stride or in_channels > 64 or out_channels > 256:
            raise ValueError(
                "this kernel is written for a stride of 1 or 2 that divides the dilation, without bias"
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return convolve_transposed(x, self.conv1d_transpose)
