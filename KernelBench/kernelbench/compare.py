"""Is an output right? The numeric policy: what tolerance applies, and where the largest error lies.

Pure tensor arithmetic on the oracle's device; both sides are read, neither is changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernelbench import fused

TOLERANCES = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
"""Absolute and relative tolerance by precision, as KernelBench has it."""

FLOOR_FACTOR = 8.0
"""An error within this many times what rounding does to the reference is not held against a kernel."""

_CHUNK = 1 << 26
_PIECE = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """|found - expected| <= scale * (absolute + relative * |expected|)."""

    absolute: float
    relative: float
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The largest error as a share of the tolerance, and where; inf where NaN or infinity are misplaced."""

    worst: float
    index: int = 0
    expected: float = 0.0
    found: float = 0.0

    @property
    def passes(self) -> bool:
        """Whether every element is within its tolerance."""
        return self.worst <= 1.0


def compare(expected: torch.Tensor, found: torch.Tensor, tolerance: Tolerance) -> Comparison:
    """Compare two tensors of one shape and dtype, in one pass on a GPU and else in chunks."""
    if fused.applies_to(expected, found):
        absolute, relative = tolerance.absolute * tolerance.scale, tolerance.relative * tolerance.scale
        error, index = fused.worst_error(expected, found, absolute, relative)
        return Comparison(
            worst=error,
            index=index,
            expected=float(expected.reshape(-1)[index].item()),
            found=float(found.reshape(-1)[index].item()),
        )
    flat_expected, flat_found = expected.reshape(-1), found.reshape(-1)
    worst = Comparison(worst=0.0)
    for start in range(0, flat_expected.numel(), _CHUNK):
        part = _compare_chunk(
            flat_expected[start : start + _CHUNK], flat_found[start : start + _CHUNK], tolerance
        )
        if part.worst > worst.worst:
            worst = Comparison(
                worst=part.worst, index=start + part.index, expected=part.expected, found=part.found
            )
    return worst


def root_mean_square(tensor: torch.Tensor) -> float:
    """The root mean square, with 0 for what is not finite; 0 for an empty or an integer tensor."""
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0.0
    if fused.applies_to(tensor):
        return math.sqrt(fused.square_sum(tensor)[0] / tensor.numel())
    total, count = 0.0, 0
    flat = tensor.reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        part = torch.nan_to_num(flat[start : start + _CHUNK].float(), nan=0.0, posinf=0.0, neginf=0.0)
        total += float(torch.linalg.vector_norm(part, dtype=torch.float64).item()) ** 2
        count += part.numel()
    return math.sqrt(total / count)


def has_non_finite(tensor: torch.Tensor) -> bool:
    """Whether any element is NaN or infinite."""
    if not tensor.is_floating_point():
        return False
    if fused.applies_to(tensor):
        return fused.square_sum(tensor)[1] > 0
    flat = tensor.reshape(-1)
    return any(
        not bool(torch.isfinite(flat[start : start + _CHUNK].sum(dtype=torch.float64)).item())
        and not bool(torch.isfinite(flat[start : start + _CHUNK]).all().item())
        for start in range(0, flat.numel(), _CHUNK)
    )


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two dense tensors hold the same bytes; in pieces, to bound the memory that it takes."""
    flat, other_flat = one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)
    if flat.numel() % 8 == 0:
        flat, other_flat = flat.view(torch.int64), other_flat.view(torch.int64)
    pieces = zip(torch.split(flat, _PIECE), torch.split(other_flat, _PIECE), strict=True)
    return all(torch.equal(piece, other_piece) for piece, other_piece in pieces)


def _compare_chunk(expected: torch.Tensor, found: torch.Tensor, tolerance: Tolerance) -> Comparison:
    if not expected.is_floating_point():
        error = (expected != found).double() * math.inf
        error = torch.nan_to_num(error, nan=0.0, posinf=math.inf)
    else:
        error = _float_error(expected.float(), found.float(), tolerance)
    value, index = error.max(dim=0)
    at = int(index.item())
    return Comparison(
        worst=float(value.item()),
        index=at,
        expected=float(expected[at].item()),
        found=float(found[at].item()),
    )


def _float_error(expected: torch.Tensor, found: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    allowed = expected.abs().mul_(tolerance.relative).add_(tolerance.absolute).mul_(tolerance.scale)
    error = torch.sub(found, expected).abs_().div_(allowed)
    worst = error.max()
    if bool(torch.isfinite(worst).item()):
        return error
    # Only now is it worth a second look: equal infinities and NaN in the same places are right.
    same = (expected == found) | (expected.isnan() & found.isnan())
    error = torch.where(same, 0.0, error)
    return torch.where(error.isnan(), math.inf, error)
