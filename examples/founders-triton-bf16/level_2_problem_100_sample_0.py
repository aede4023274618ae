"""Transposed convolution, clamp from below, division, in one kernel.

With stride 2 and padding 1, a position's 2 x 2 x 2 results depend on 2 x 2 x 2 inputs, so pairs of results along the
width are products, of which those for the four kinds of rows need 1, 2, 2 and 4 pairs of inputs. They are finished
before they are written.

Inputs, weights, outputs and what is multiplied are bf16; it sums in fp32.
"""

import torch
import triton
import triton.language as tl
from torch import nn

TILE = {"OUTPUTS": 128, "BLOCK": 64, "num_warps": 4, "num_stages": 3}


@triton.jit
def fold_kernel(
    weight_ptr,
    folded_ptr,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Weights as [2 x 2 results, block of outputs, 2 x 2 inputs, 16 inputs, (pair of results, output), (input, pair)]."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c_blocks: tl.constexpr = (IN + 15) // 16
    o_blocks: tl.constexpr = (OUT + OUTPUTS - 1) // OUTPUTS
    k, o, rest = index % 32, index // 32 % OUTPUTS, index // (32 * OUTPUTS)
    one, rest = rest % 2, rest // 2
    c, rest = rest % c_blocks * 16 + k // 2, rest // c_blocks
    tap, rest = rest % 4 * 2 + k % 2, rest // 4
    o += rest % o_blocks * OUTPUTS
    way = rest // o_blocks * 2 + one
    place = tl.zeros([BLOCK], tl.int32)
    for bit in tl.static_range(3):
        odd, other = way >> (2 - bit) & 1, tap >> (2 - bit) & 1
        place = place * 3 + tl.where(odd == 0, 1, 2 - 2 * other)
    there = (o < OUT) & (c < IN) & (way < 8) & (tap & ~way == 0)
    x = tl.load(weight_ptr + (c * OUT + o) * 27 + place, mask=there, other=0.0)
    tl.store(folded_ptr + index, x, mask=way < 8)


@triton.jit
def conv_kernel(
    x_ptr,
    folded_ptr,
    bias_ptr,
    y_ptr,
    low,
    divisor,
    IN: tl.constexpr,
    OUT: tl.constexpr,
    DEPTH: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Some channels of one of 2 x 2 rows of results at BLOCK positions of an image."""
    n: tl.constexpr = DEPTH * HEIGHT * WIDTH
    blocks: tl.constexpr = (n + BLOCK - 1) // BLOCK
    depth: tl.constexpr = 2 * DEPTH - 1
    height: tl.constexpr = 2 * HEIGHT - 1
    width: tl.constexpr = 2 * WIDTH - 1
    c_blocks: tl.constexpr = (IN + 15) // 16
    o_blocks: tl.constexpr = (OUT + OUTPUTS - 1) // OUTPUTS
    rows = 3 - tl.program_id(0) % 4
    o_block = tl.program_id(0) // 4 % o_blocks
    image = (tl.program_id(0) // (4 * o_blocks * blocks)).to(tl.int64)
    first = tl.program_id(0) // (4 * o_blocks) % blocks * BLOCK
    place = first + tl.arange(0, BLOCK)
    z, row, column = place // (HEIGHT * WIDTH), place // WIDTH % HEIGHT, place % WIDTH
    edge = tl.where(z == DEPTH - 1, 4, 0) + tl.where(row == HEIGHT - 1, 2, 0)
    edge += tl.where(column == WIDTH - 1, 1, 0) + tl.where(z < DEPTH, 0, 8)
    x_ptr += image * (IN * n)
    k = tl.arange(0, 32)
    folded_ptr += (rows * o_blocks + o_block) * (4 * c_blocks * 2 * OUTPUTS * 32)
    w_ptrs = folded_ptr + tl.arange(0, 2 * OUTPUTS)[:, None] * 32 + k[None, :]
    y = tl.zeros([BLOCK, 2 * OUTPUTS], tl.float32)
    for i in range(tl.where(rows == 3, 4, tl.where(rows == 0, 1, 2)) * c_blocks):
        tap = tl.where(rows == 2, 2 * (i // c_blocks), i // c_blocks)
        c = i % c_blocks * 16 + k // 2
        offsets = c * n + k % 2 + (tap // 2 * HEIGHT + tap % 2) * WIDTH
        mask = (c < IN)[:, None] & ((8 + 2 * tap + k % 2)[:, None] & edge[None, :] == 0)
        x = tl.load(x_ptr + (offsets[:, None] + place[None, :]), mask=mask, other=0.0)
        w = tl.load(w_ptrs + (tap * c_blocks + i % c_blocks) * (2 * OUTPUTS * 32))
        y = tl.dot(tl.trans(x), tl.trans(w), y)
    y = tl.permute(tl.reshape(y, [BLOCK, 2, OUTPUTS]), (2, 0, 1))
    y = tl.reshape(y, [OUTPUTS, 2 * BLOCK])
    at = 2 * first + tl.arange(0, 2 * BLOCK)
    z = at // (2 * WIDTH * HEIGHT) * 2 + rows // 2
    row = at // (2 * WIDTH) % HEIGHT * 2 + rows % 2
    column = at % (2 * WIDTH)
    o = o_block * OUTPUTS + tl.arange(0, OUTPUTS)
    y += tl.load(bias_ptr + o, mask=o < OUT, other=0.0).to(tl.float32)[:, None]
    y = tl.where(y < low, low, y) / divisor
    there = (o < OUT)[:, None] & ((z < depth) & (row < height) & (column < width))[None, :]
    y_ptr += image * OUT * (depth * height * width)
    offsets = o[:, None] * (depth * height * width) + ((z * height + row) * width + column)[None, :]
    tl.store(y_ptr + offsets, y, mask=there)


class ModelNew(nn.Module):
    """Transposed convolution, clamp from below, division."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        min_value: float,
        divisor: float,
    ):
        super().__init__()
        if (kernel_size, stride, padding) != (3, 2, 1):
            raise ValueError("this kernel is written for a 3 x 3 x 3 kernel, stride 2 and padding 1")
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.min_value = min_value
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        conv, tile = self.conv_transpose, dict(TILE)
        batch, inputs, depth, height, width = x.shape
        outputs, at_once = conv.out_channels, tile["OUTPUTS"]
        slices = triton.cdiv(outputs, at_once)
        total = 4 * slices * 4 * triton.cdiv(inputs, 16) * 2 * at_once * 32
        folded = torch.empty(total, device=x.device, dtype=x.dtype)
        shape = {"IN": inputs, "OUT": outputs}
        fold_kernel[(triton.cdiv(total, 256),)](
            conv.weight.contiguous(), folded, OUTPUTS=at_once, BLOCK=256, num_warps=4, **shape
        )
        y = torch.empty(
            (batch, outputs, 2 * depth - 1, 2 * height - 1, 2 * width - 1), device=x.device, dtype=x.dtype
        )
        grid = (batch * 4 * slices * triton.cdiv(depth * height * width, tile["BLOCK"]),)
        conv_kernel[grid](
            x,
            folded,
            conv.bias,
            y,
            self.min_value,
            self.divisor,
            DEPTH=depth,
            HEIGHT=height,
            WIDTH=width,
            **shape,
            **tile,
        )
        return y
