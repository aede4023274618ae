"""Is an output right? The numeric policy: what tolerance applies, and where the largest error lies.

Pure tensor arithmetic on the oracle's device; both sides are read, neither is changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from kernel_evaluator.numerics import fused

TOLERANCES = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
"""Absolute and relative tolerance by precision, as KernelBench has it."""

MEDIANS = 2.0
"""The size of an output is its root mean square, or so many medians where a few elements make that large."""

TELLING_SHARE = 0.01
"""So few of the elements that are not zero may be smaller than the absolute part of a tolerance."""

RESOLVED = 8.0
"""So many units in the last place of the upper quartile are lost beside it in float32, as in 1 - tanh."""

MAGNITUDES = 256
"""Elements are sorted by their exponent, as float32 has it; zero and subnormal numbers are the first sort."""

_BESIDE = 4
_SAMPLE = 1 << 14
_AROUND = 1 << 12
_CHUNK = 1 << 26
_PIECE = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """|found - expected| <= absolute + relative * |expected|, or what rounding does to such an element.

    `rounding` allows an error for each magnitude of what is expected, float64, shape (MAGNITUDES,). Raises
    ValueError where the tolerance is not finite: that is our own mistake, and anything would pass.
    """

    absolute: float
    relative: float
    rounding: torch.Tensor | None = None

    def __post_init__(self) -> None:
        said = torch.tensor([self.absolute, self.relative], dtype=torch.float64)
        for values in [said] if self.rounding is None else [said, self.rounding]:
            if not bool((values.isfinite() & (values >= 0)).all()):
                raise ValueError(f"a tolerance must be finite and not negative, got {self}")

    def allowed(self, expected: float) -> float:
        """The error allowed where this is expected."""
        usual = self.absolute + self.relative * abs(expected)
        if self.rounding is None:
            return usual
        return max(usual, float(self.rounding[_magnitude(torch.tensor([expected]))].item()))


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
        index = fused.worst_at(expected, found, tolerance.absolute, tolerance.relative, tolerance.rounding)
        right, given = (tensor.reshape(-1)[index : index + 1] for tensor in (expected, found))
        return replace(_compare_chunk(right, given, tolerance), index=index)
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


def tolerance_of(expected: torch.Tensor, precision: str, distribution: str) -> Tolerance:
    """The tolerance without rounding: KernelBench's in plain trials, relative to the output elsewhere."""
    base = TOLERANCES[precision]
    if distribution == "plain":
        return Tolerance(absolute=base, relative=base)
    return relative_tolerance(expected, base)


def relative_tolerance(expected: torch.Tensor, base: float) -> Tolerance:
    """The panel's tolerance at an output: relative to what is typical there, and small where much is small.

    A few huge elements do not make it wide: its size is bounded by the median, and its absolute part is so
    small that nearly no element can be left out. Exact zeros say nothing of an output's size.
    """
    norm = root_mean_square(expected)
    if norm == 0:
        return Tolerance(absolute=base, relative=base)
    sizes = sample(expected, _SAMPLE).abs().double()
    sizes = sizes[sizes.isfinite() & (sizes > 0)].sort().values
    absolute = base * norm
    if len(sizes):
        median, small = sizes[len(sizes) // 2], sizes[int(TELLING_SHARE * len(sizes))]
        absolute = min(absolute, base * MEDIANS * float(median.item()), float(small.item()))
        upper = float(sizes[len(sizes) * 3 // 4].item())
        absolute = max(absolute, RESOLVED * torch.finfo(torch.float32).eps * upper)
    return Tolerance(absolute=max(absolute, torch.finfo(expected.dtype).tiny), relative=base)


def errors(expected: torch.Tensor, found: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Each element's error as a share of its tolerance, float64; inf where NaN or infinity are misplaced."""
    return _float_error(expected.float(), found.float(), tolerance)


def sample(tensor: torch.Tensor, most: int, near: int | None = None) -> torch.Tensor:
    """Some elements of a tensor, `most` at most, the same each time on a device, at no regular distance.

    And those beside the flat index `near`, where one is given. A view where that is all.
    """
    flat = tensor.reshape(-1)
    if flat.numel() <= most:
        return flat
    drawn = torch.Generator(flat.device).manual_seed(flat.numel())
    chosen = flat[torch.randint(flat.numel(), (most,), generator=drawn, device=flat.device)]
    if near is None:
        return chosen
    return torch.cat([chosen, flat[max(0, near - _AROUND) : near + _AROUND]])


def rounding_by_magnitude(expected: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """The largest difference between two forms of an output for each magnitude, float64, (MAGNITUDES,).

    What moves a small element may move a larger one, and of a magnitude that is rare those beside it say
    more. A zero may be what fell below a threshold, and is moved as far as the middle one of all others.
    What is not finite in either form does not count.
    """
    largest = torch.zeros(MAGNITUDES, dtype=torch.float64, device=expected.device)
    counts = torch.zeros(MAGNITUDES, dtype=torch.int64, device=expected.device)
    if expected.is_floating_point():
        flat, other = expected.reshape(-1), moved.reshape(-1)
        for start in range(0, flat.numel(), _CHUNK):
            right, given = flat[start : start + _CHUNK], other[start : start + _CHUNK].double()
            magnitudes = _magnitude(right)
            differences = torch.nan_to_num(given.sub_(right).abs_(), nan=0.0, posinf=0.0)
            largest.scatter_reduce_(0, magnitudes, differences, "amax")
            counts += torch.bincount(magnitudes, minlength=MAGNITUDES)
    counts[0] = 0
    smaller = counts.cpu().cumsum(0)
    rare, middle = (int((smaller < share * smaller[-1]).sum().item()) for share in (TELLING_SHARE, 0.5))
    at = torch.arange(MAGNITUDES).clamp_(min=rare)
    at[0] = middle
    at.add_(_BESIDE).clamp_(max=MAGNITUDES - 1)
    return largest.cpu().cummax(0).values[at]


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
    """Errors as shares of what is allowed, in float64, where no float32 is too large or too small."""
    right, given = expected.double(), found.double()
    allowed = right.abs().mul_(tolerance.relative).add_(tolerance.absolute)
    if tolerance.rounding is not None:
        allowed = torch.maximum(allowed, tolerance.rounding.to(expected.device)[_magnitude(expected)])
    error = torch.sub(given, right).abs_().div_(allowed)
    worst = error.max()
    if bool(torch.isfinite(worst).item()):
        return error
    # Only now is it worth a second look: equal infinities and NaN in the same places are right.
    same = (expected == found) | (expected.isnan() & found.isnan())
    error = torch.where(same, 0.0, error)
    return torch.where(error.isnan(), math.inf, error)


def _magnitude(values: torch.Tensor) -> torch.Tensor:
    """The exponents of values as float32 has them, 0 to 255."""
    return values.float().contiguous().view(torch.int32).bitwise_right_shift(23).bitwise_and_(0xFF).long()
