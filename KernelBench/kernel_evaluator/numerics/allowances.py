"""What rounding allows a kernel: how far a probe moved a reference's output, for each magnitude of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kernel_evaluator.numerics import compare

ROUNDING_FACTOR = 8.0
"""An error within this many times what rounding does to the reference is not held against a kernel."""

OWN_ERROR = 100.0
"""More than so many tolerances, relative to the output's size, is no rounding that could be allowed for.

Of the references at reduced sizes none is moved by more than 17 but three, and those by more than 120.
"""

Allowance = torch.Tensor | None
"""The error that is not held against a kernel, by magnitude (float64); None where nothing can be."""


def moved_by(expected: Sequence[torch.Tensor], moved: Sequence[torch.Tensor], base: float) -> list[Allowance]:
    """For each output what a probe's difference allows a kernel, by magnitude.

    None where it is far off, beside the output's size: a choice fell otherwise, or the reference is so badly
    conditioned there that nothing can be asked of a kernel, and to allow as much would allow anything.
    """
    found: list[Allowance] = []
    for right, given in zip(expected, moved, strict=True):
        size = compare.root_mean_square(right) or 1.0
        usual = compare.Tolerance(absolute=base * size, relative=base)
        is_rounding = not right.is_floating_point() or compare.compare(right, given, usual).worst <= OWN_ERROR
        found.append(ROUNDING_FACTOR * compare.rounding_by_magnitude(right, given) if is_rounding else None)
    return found


def widest(probes: Sequence[Allowance]) -> Allowance:
    """What several probes of one output allow together; None where one of them says that nothing can be."""
    there = [probe for probe in probes if probe is not None]
    return torch.stack(there).amax(0) if len(there) == len(probes) else None


def together(
    strict: Sequence[Allowance], nudged: Sequence[Allowance], exact: Sequence[Allowance]
) -> list[Allowance]:
    """What the probes of each output allow: without TF32, inputs moved by about an ulp, and in float64.

    Where float64 is far off it took another way, and does not count.
    """
    return [
        widest([one, other] if wide is None else [one, other, wide])
        for one, other, wide in zip(strict, nudged, exact, strict=True)
    ]


def weigh(
    expected: torch.Tensor,
    found: torch.Tensor,
    tolerance: compare.Tolerance,
    probe: Callable[[int], tuple[Allowance, bool]],
) -> tuple[compare.Comparison, compare.Tolerance] | None:
    """Compare an output by its tolerance and, as long as it is wrong, by what rounding allows beside.

    `probe` is asked near the flat index that is worst by then; it gives what is allowed, and whether that is
    all that can be said of this element. So none is called wrong by what was found elsewhere. None where
    nothing can be asked of a kernel.
    """
    result, settled = compare.compare(expected, found, tolerance), set[int]()
    while not result.passes and result.index not in settled:
        allowance, is_all = probe(result.index)
        if allowance is None:
            return None
        if is_all:
            settled.add(result.index)
        tolerance = replace(tolerance, rounding=allowance)
        result = compare.compare(expected, found, tolerance)
    return result, tolerance
