"""Transposed convolution of wide images, as one product on the tensor cores in TF32, as PyTorch convolves.

A first pass puts the channels last, rounds to TF32 and puts zeros in front of each row and image, so that all outputs
lie in one line without edges, and every tap is a constant distance away. A row of the product is TOGETHER neighbouring
outputs, whose taps mostly are the same. A tile walks over the taps of a few channels before the next ones, so that
shifted loads hit the cache.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"TOGETHER": 1, "BLOCK_M": 256, "BLOCK_C": 32, "CACHED": False, "num_warps": 8, "num_stages": 3}


@triton.jit
def nearest_tf32(x, ROUND: tl.constexpr):
    """The nearest TF32 number, once the tensor core drops the low bits."""
    if ROUND:
        x = (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    return x


@triton.jit
def window_tap(step, WINDOW: tl.constexpr, TOGETHER: tl.constexpr):
    """Taps that are TOGETHER apart read the same pixels, so they follow one another."""
    tap = step % WINDOW
    if WINDOW % TOGETHER == 0:
        tap = tap % (WINDOW // TOGETHER) * TOGETHER + tap // (WINDOW // TOGETHER)
    return tap


@triton.jit
def pack_input_kernel(
    x_ptr,
    packed_ptr,
    valid,
    size,
    CHANNELS: tl.constexpr,
    PADDED: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    FRONT_H: tl.constexpr,
    FRONT_W: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Put the channels last, with zeros in front of each row and image, and behind the last."""
    position = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    row = position // (WIDTH + FRONT_W)
    sample = row // (HEIGHT + FRONT_H)
    w = position % (WIDTH + FRONT_W) - FRONT_W
    h = row % (HEIGHT + FRONT_H) - FRONT_H
    inside = (position < valid) & (w >= 0) & (h >= 0)
    source = sample * (CHANNELS * HEIGHT * WIDTH) + h * WIDTH + w
    x = tl.load(
        x_ptr + c[:, None] * (HEIGHT * WIDTH) + source[None, :],
        mask=inside[None, :] & (c < CHANNELS)[:, None],
        other=0.0,
    )
    offsets = position[:, None] * PADDED + c[None, :]
    tl.store(packed_ptr + offsets, nearest_tf32(tl.trans(x), ROUND), mask=(position < size)[:, None])


@triton.jit
def pack_weight_kernel(
    weight_ptr,
    packed_ptr,
    total,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    KERNEL_H: tl.constexpr,
    KERNEL_W: tl.constexpr,
    WINDOW: tl.constexpr,
    TOGETHER: tl.constexpr,
    ROUND: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [block of inputs, kernel row, tap, output and its place, input]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = index % BLOCK_C
    rest = index // BLOCK_C
    place = rest % TOGETHER
    rest = rest // TOGETHER
    o = rest % ROWS
    rest = rest // ROWS
    tap_w = window_tap(rest, WINDOW, TOGETHER) - place
    rest = rest // WINDOW
    tap_h = rest % KERNEL_H
    c += rest // KERNEL_H * BLOCK_C
    there = (index < total) & (tap_w >= 0) & (tap_w < KERNEL_W) & (c < CHANNELS) & (o < OUTPUTS)
    source = ((c * OUTPUTS + o) * KERNEL_H + KERNEL_H - 1 - tap_h) * KERNEL_W + KERNEL_W - 1 - tap_w
    weight = tl.load(weight_ptr + source, mask=there, other=0.0)
    tl.store(packed_ptr + index, nearest_tf32(weight, ROUND), mask=index < total)


@triton.jit(do_not_specialize=["nothing"])
def conv_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    nothing,
    groups,
    total,
    PADDED: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    OUT_H: tl.constexpr,
    OUT_W: tl.constexpr,
    KERNEL_H: tl.constexpr,
    WINDOW: tl.constexpr,
    TOGETHER: tl.constexpr,
    CACHED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """BLOCK_M groups of TOGETHER neighbouring outputs, of all channels."""
    N: tl.constexpr = ROWS * TOGETHER
    first = tl.program_id(0) * BLOCK_M
    start = tl.minimum(first + tl.arange(0, BLOCK_M), groups - 1) * TOGETHER
    c = tl.arange(0, BLOCK_C)
    lanes = tl.arange(0, N)
    if CACHED:
        # Copies of 16 bytes pass by the L1 cache; these are of 8 for all that the compiler knows.
        x_ptr += 2 * nothing
    x_ptrs = x_ptr + start[:, None] * PADDED + c[None, :]
    w_ptrs = w_ptr + lanes[:, None] * BLOCK_C + c[None, :]
    y = tl.zeros([BLOCK_M, N], tl.float32)
    for step in range(PADDED // BLOCK_C * KERNEL_H * WINDOW):
        tap_h = step // WINDOW % KERNEL_H
        tap_w = window_tap(step, WINDOW, TOGETHER)
        c_start = step // (WINDOW * KERNEL_H) * BLOCK_C
        x = tl.load(x_ptrs + ((tap_h * OUT_W + tap_w) * PADDED + c_start))
        w = tl.load(w_ptrs + step * (N * BLOCK_C))
        y = tl.dot(x, tl.trans(w), y, input_precision="tf32")
    y = tl.trans(y)
    if TOGETHER > 1:
        y = tl.permute(tl.reshape(y, [ROWS, TOGETHER, BLOCK_M]), (0, 2, 1))
        y = tl.reshape(y, [ROWS, BLOCK_M * TOGETHER])
    position = first * TOGETHER + tl.arange(0, BLOCK_M * TOGETHER)
    o = tl.arange(0, ROWS)
    image: tl.constexpr = OUT_H * OUT_W
    target = position // image * (OUTPUTS * image) + position % image
    mask = (o < OUTPUTS)[:, None] & (position < total)[None, :]
    tl.store(y_ptr + o[:, None] * image + target[None, :], y, mask=mask)


def convolve_transposed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A transposed convolution of stride 1 without padding."""
    x, weight = x.contiguous(), weight.contiguous()
    batch, channels, height, width = x.shape
    outputs, kernel_h, kernel_w = weight.shape[1:]
    out_h, out_w = height + kernel_h - 1, width + kernel_w - 1
    together, block_m = TILE["TOGETHER"], TILE["BLOCK_M"]
    block_c = min(TILE["BLOCK_C"], max(16, triton.next_power_of_2(channels)))
    padded = triton.cdiv(channels, block_c) * block_c
    rows = max(triton.next_power_of_2(outputs), 16)
    window = kernel_w + together - 1
    total = batch * out_h * out_w
    groups = triton.cdiv(total, together)
    size = groups * together + (kernel_h - 1) * out_w + window - 1
    if max(size * padded, (total + block_m * together) * outputs) >= 2**31:
        raise ValueError("this kernel is written for fewer than 2^31 elements")
    packed = torch.empty((size, padded), device=x.device, dtype=torch.float32)
    length = padded * kernel_h * window * rows * together
    matrix = torch.empty(length, device=x.device, dtype=torch.float32)
    y = torch.empty((batch, outputs, out_h, out_w), device=x.device, dtype=x.dtype)
    pack_weight_kernel[(triton.cdiv(length, 512),)](
        weight,
        matrix,
        length,
        CHANNELS=channels,
        OUTPUTS=outputs,
        ROWS=rows,
        KERNEL_H=kernel_h,
        KERNEL_W=kernel_w,
        WINDOW=window,
        TOGETHER=together,
        ROUND=x.is_cuda,
        BLOCK_C=block_c,
        BLOCK=512,
        num_warps=4,
    )
    pack_input_kernel[(triton.cdiv(size, 128), triton.cdiv(padded, min(32, block_c)))](
        x,
        packed,
        total,
        size,
        CHANNELS=channels,
        PADDED=padded,
        HEIGHT=height,
        WIDTH=width,
        FRONT_H=kernel_h - 1,
        FRONT_W=kernel_w - 1,
        ROUND=x.is_cuda,
        BLOCK_C=min(32, block_c),
        BLOCK=128,
        num_warps=4,
    )
    conv_kernel[(triton.cdiv(groups, block_m),)](
        packed,
        matrix,
        y,
        0,
        groups,
        total,
        PADDED=padded,
        OUTPUTS=outputs,
        ROWS=rows,
        OUT_H=out_h,
        OUT_W=out_w,
        KERNEL_H=kernel_h,
        WINDOW=window,
        TOGETHER=together,
        CACHED=TILE["CACHED"],
        BLOCK_M=block_m,
        BLOCK_C=block_c,
        num_warps=TILE["num_warps"],
        num_stages=TILE["num_stages"],
    )
    return y


class ModelNew(nn.Module):
    """Transposed convolution of wide images."""

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
    ) -> None:
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
        conv = self.conv_transpose2d
        if conv.stride != (1, 1) or conv.padding != (0, 0) or conv.dilation != (1, 1):
            raise ValueError("this kernel is written for stride 1, no padding and no dilation")
        if groups != 1 or conv.bias is not None or conv.output_padding != (0, 0):
            raise ValueError("this kernel is written for one group and no bias")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return convolve_transposed(x, self.conv_transpose2d.weight)
