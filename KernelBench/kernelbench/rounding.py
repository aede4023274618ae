"""How far rounding alone moves a reference's outputs: what a candidate's error is weighed against.

Runs the reference alone; no candidate takes part. (How fast the hardware allows a call is `floor`'s.)
"""

from __future__ import annotations

import secrets

import torch

from kernelbench.bench import Bench
from kernelbench.sides import ReferenceFailed

OWN_ERROR = 10.0
"""More than so many tolerances, relative to the output's size, is not rounding: float64 took another way."""


def floor(bench: Bench, distribution: str, seed: int | None = None) -> float:
    """How far rounding alone moves the reference, as a share of the tolerance; the most seen is kept.

    Measured once on inputs of its own, and again on the very inputs of `seed`: where a few elements decide,
    others may say little of them.
    """
    if seed is not None or distribution not in bench.floors:
        found = _measure(bench, distribution, secrets.randbits(60) if seed is None else seed)
        bench.floors[distribution] = max(found, bench.floors.get(distribution, 0.0))
        bench.times_weighed += 1
    return bench.floors[distribution]


def _measure(bench: Bench, distribution: str, seed: int) -> float:
    """Three probes: the same inputs without TF32, in float64, and moved by about an ulp."""

    def put(*, nudge: bool = False) -> None:
        bench.put(0, lambda: bench.source.draw(seed, distribution, nudge=nudge))

    put()
    expected = [tensor.clone() for tensor in bench.expect(0, seed)]
    put()  # the reference may have changed them
    strict = bench.worst(expected, bench.expect(0, seed, strict=True), distribution)
    put()
    own = _own_error(bench, expected, seed, distribution)
    put(nudge=True)
    return max(strict, own, bench.worst(expected, bench.expect(0, seed), distribution))


def _own_error(bench: Bench, expected: list[torch.Tensor], seed: int, distribution: str) -> float:
    """How far the reference itself is from float64; 0 where it cannot be run so, or draws otherwise."""
    try:
        exact = bench.expect(0, seed, exact=True)
    except ReferenceFailed:
        return 0.0
    if bench.worst(expected, exact, "upstream") > OWN_ERROR:
        return 0.0
    return bench.worst(expected, exact, distribution)
