"""How far rounding alone moves a reference's outputs: what a candidate's error is weighed against.

Runs the reference alone; no candidate takes part.
"""

from __future__ import annotations

from typing import Protocol

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.numerics import compare
from kernel_evaluator.numerics.allowances import Allowance, moved_by, together, widest
from kernel_evaluator.stand.sides import ReferenceFailed

SAMPLE = 1 << 22
"""Of a larger output so many elements are looked at where all of it behaves alike."""


class Answering(Protocol):
    """A reference that can be run on inputs drawn anew, in other ways of rounding."""

    @property
    def is_gone(self) -> bool:
        """Whether it can be run no more."""

    def answer(
        self, distribution: str, seed: int, *, strict: bool = False, exact: bool = False, nudge: bool = False
    ) -> list[torch.Tensor]:
        """Give views of its outputs: without TF32, in float64, or on inputs moved by about an ulp."""


class Rounding:
    """What rounding allows on a reference; `times_weighed` says how often it was tried.

    `base` is the tolerance of the precision, relative to an output's size. With `may_be_exact` float64 is
    tried where it is asked for; `was_lost` says that it took the reference along, for want of memory.
    """

    def __init__(self, reference: Answering, base: float, *, may_be_exact: bool = True) -> None:
        self._reference, self._base, self.may_be_exact = reference, base, may_be_exact
        self.was_lost = False
        self._most: dict[str, list[Allowance]] = {}
        self.times_weighed = 0

    def forget(self) -> None:
        """Begin anew: the reference has other weights."""
        self._most = {}

    def allowances(
        self, distribution: str, seed: int | None = None, *, near: int | None = None, exact: bool = False
    ) -> list[Allowance]:
        """For each output what rounding allows a kernel; the most seen is kept.

        Measured once on inputs of its own, and again on the very inputs of `seed`: where a few elements
        decide, others may say little of them. Of a large output a sample is looked at, and what is `near` a
        flat index. Float64 (`exact`) takes some GPUs a hundred times as long.
        """
        if seed is not None or distribution not in self._most:
            found = self._measure(distribution, secret_draws.seed() if seed is None else seed, near, exact)
            known = self._most.get(distribution, found)
            self._most[distribution] = [widest(both) for both in zip(found, known, strict=True)]
            self.times_weighed += 1
        return self._most[distribution]

    def _measure(self, distribution: str, seed: int, near: int | None, exact: bool) -> list[Allowance]:
        """Probes of the same inputs: without TF32, moved by about an ulp, and in float64 if that is asked."""

        def run(**how: bool) -> list[torch.Tensor]:
            outputs = self._reference.answer(distribution, seed, **how)
            return [compare.sample(output, SAMPLE, near) for output in outputs]

        expected = [tensor.clone() for tensor in run()]
        strict = moved_by(expected, run(strict=True), self._base)
        nudged = moved_by(expected, run(nudge=True), self._base)
        widened = strict
        if exact and self.may_be_exact:
            try:
                widened = moved_by(expected, run(exact=True), self._base)
            except ReferenceFailed:
                self.was_lost = self._reference.is_gone
        return together(strict, nudged, widened)
