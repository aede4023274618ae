"""How far rounding alone moves a reference's outputs: what a candidate's error is weighed against.

Runs the reference alone; no candidate takes part.
"""

from __future__ import annotations

from typing import Protocol

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.numerics.allowances import Allowance, moved_by, together, widest
from kernel_evaluator.stand.sides import ReferenceFailed


class Answering(Protocol):
    """A reference that can be run on inputs drawn anew, in other ways of rounding."""

    def answer(
        self, distribution: str, seed: int, *, strict: bool = False, exact: bool = False, nudge: bool = False
    ) -> list[torch.Tensor]:
        """Give views of its outputs: without TF32, in float64, or on inputs moved by about an ulp."""


class Rounding:
    """What rounding allows on a reference; `times_weighed` says how often it was tried.

    `base` is the tolerance of the precision, relative to an output's size.
    """

    def __init__(self, reference: Answering, base: float) -> None:
        self._reference, self._base = reference, base
        self._most: dict[str, list[Allowance]] = {}
        self.times_weighed = 0

    def forget(self) -> None:
        """Begin anew: the reference has other weights."""
        self._most = {}

    def allowances(self, distribution: str, seed: int | None = None) -> list[Allowance]:
        """For each output what rounding allows a kernel; the most seen is kept.

        Measured once on inputs of its own, and again on the very inputs of `seed`: where a few elements
        decide, others may say little of them.
        """
        if seed is not None or distribution not in self._most:
            found = self._measure(distribution, secret_draws.seed() if seed is None else seed)
            known = self._most.get(distribution, found)
            self._most[distribution] = [widest(both) for both in zip(found, known, strict=True)]
            self.times_weighed += 1
        return self._most[distribution]

    def _measure(self, distribution: str, seed: int) -> list[Allowance]:
        """Three probes: the same inputs without TF32, in float64, and moved by about an ulp."""
        run = self._reference.answer
        expected = [tensor.clone() for tensor in run(distribution, seed)]
        strict = moved_by(expected, run(distribution, seed, strict=True), self._base)
        try:
            exact = moved_by(expected, run(distribution, seed, exact=True), self._base)
        except ReferenceFailed:
            exact = strict
        nudged = moved_by(expected, run(distribution, seed, nudge=True), self._base)
        return together(strict, nudged, exact)
