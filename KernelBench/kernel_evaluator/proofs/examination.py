"""One problem laid open: its inputs, its model under chosen weights, and the tolerance of what it gives.

Everything as the stand has it, in one process. Runs references only; never sees a submission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from kernel_evaluator.candidate.exact import run_exactly, without_tf32
from kernel_evaluator.numerics import compare
from kernel_evaluator.numerics.allowances import Allowance, moved_by, together
from kernel_evaluator.problems import variants
from kernel_evaluator.problems.inputs import PRECISIONS, InputSource
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.problems.seeding import seed_all

WEIGHTS_SEED = 101
_SAMPLE = 1 << 18
MISFITS = (RuntimeError, ValueError, AssertionError)
"""What a model raises on inputs that it cannot take."""


class Examination:
    """One problem in one precision on one device, with torch's own weights at first."""

    def __init__(self, problem: Problem, device: str, precision: str) -> None:
        self.device, self.precision = device, precision
        self.source = InputSource(problem, device, PRECISIONS[precision])
        self.model = self.build("plain")

    def build(self, variant: str) -> torch.nn.Module:
        """Build the model with weights of a variant."""
        place = torch.device(self.device)
        with torch.no_grad(), place, variants.init(variant):
            arguments = self.source.module.get_init_inputs()
            torch.manual_seed(WEIGHTS_SEED)
            model = self.source.module.Model(*arguments)
        built: torch.nn.Module = model.to(device=self.device, dtype=PRECISIONS[self.precision])
        return built

    def draw(self, seed: int, distribution: str, *, nudge: bool = False) -> list[Any]:
        """Draw inputs; `plain` ones are upstream's."""
        return self.source.draw(seed, "upstream" if distribution == "plain" else distribution, nudge=nudge)

    def run(self, inputs: list[Any], seed: int, model: torch.nn.Module | None = None) -> list[torch.Tensor]:
        """Run the model, or another, on copies of the inputs; every tensor that it gives."""
        seed_all(seed)
        with torch.no_grad():
            given = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            return list(_leaves((model or self.model)(*given)))

    def run_exactly(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """Run the model in float64, and round what it gives. Raises where it insists on another type."""
        seed_all(seed)
        with torch.no_grad():
            return list(_leaves(run_exactly(self.model, inputs, PRECISIONS[self.precision])))

    def run_part(self, inputs: list[Any], leaf: int, seed: int) -> torch.Tensor | None:
        """The reference on an eighth of the rows of every input; None where that cannot be run."""
        rows = {value.shape[0] for value in inputs if isinstance(value, torch.Tensor) and value.dim() > 0}
        if len(rows) != 1 or (count := rows.pop()) < 8:
            return None
        part = [value[: count // 8] if isinstance(value, torch.Tensor) else value for value in inputs]
        try:
            return self.run(part, seed)[leaf]
        except MISFITS:
            return None

    def tolerances(
        self, distribution: str, seed: int, inputs: list[Any], expected: list[torch.Tensor]
    ) -> list[compare.Tolerance | None]:
        """The tolerance of each output, with what rounding does; None where anything is right."""
        rounding = self.rounding(distribution, seed, inputs, expected)
        return [
            None
            if allowed is None
            else replace(compare.tolerance_of(right, self.precision, distribution), rounding=allowed)
            for right, allowed in zip(expected, rounding, strict=True)
        ]

    def rounding(
        self,
        distribution: str,
        seed: int,
        inputs: list[Any],
        expected: list[torch.Tensor],
        near: int | None = None,
    ) -> list[Allowance]:
        """What rounding allows each output: as the stand measures it, on a sample, and `near` a flat index.

        None where it does so much that anything is right.
        """
        sampled = _sampled(expected, near)

        def moved(given: list[torch.Tensor]) -> list[Allowance]:
            return moved_by(sampled, _sampled(given, near), compare.TOLERANCES[self.precision])

        nudged = moved(self.run(self.draw(seed, distribution, nudge=True), seed))
        strict = nudged
        if self.device != "cpu":  # which has no TF32
            with without_tf32():
                strict = moved(self.run(inputs, seed))
        try:
            exact = moved(self.run_exactly(inputs, seed))
        except MISFITS:
            exact = strict
        return together(strict, nudged, exact)


def _sampled(outputs: list[torch.Tensor], near: int | None) -> list[torch.Tensor]:
    return [compare.sample(output, _SAMPLE, near) for output in outputs]


def _leaves(output: Any) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _leaves(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from _leaves(value)
