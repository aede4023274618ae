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


def floor(bench: Bench, distribution: str) -> float:
    """How far rounding alone moves the reference, as a share of the tolerance; kept in `bench.floors`.

    Three probes: the same inputs without TF32, in float64, and moved by about an ulp.
    """
    if distribution not in bench.floors:
        seed = secrets.randbits(60)
        bench.put(0, lambda: bench.source.draw(seed, distribution))
        expected = [tensor.clone() for tensor in bench.expect(0, seed)]
        bench.put(0, lambda: bench.source.draw(seed, distribution))  # the reference may have changed them
        strict = bench.expect(0, seed, strict=True)
        moved = [bench.worst(expected, strict, distribution)]
        bench.put(0, lambda: bench.source.draw(seed, distribution))
        moved.append(_own_error(bench, expected, seed, distribution))
        bench.put(0, lambda: bench.source.draw(seed, distribution, nudge=True))
        moved.append(bench.worst(expected, bench.expect(0, seed), distribution))
        bench.floors[distribution] = max(moved)
    return bench.floors[distribution]


def _own_error(bench: Bench, expected: list[torch.Tensor], seed: int, distribution: str) -> float:
    """How far the reference itself is from float64; 0 where it cannot be run so, or draws otherwise."""
    try:
        exact = bench.expect(0, seed, exact=True)
    except ReferenceFailed:
        return 0.0
    if bench.worst(expected, exact, "upstream") > OWN_ERROR:
        return 0.0
    return bench.worst(expected, exact, distribution)
