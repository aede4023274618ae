"""Which problems does a trivial answer satisfy, under the evaluator's own inputs and tolerances?

Where a null answer gets through on upstream's inputs, the panel and other weights are tried. Where it gets
through all of them, the problem cannot be ranked. In half precision it cannot either where the exact answer
itself is wrong. Runs references only; never sees a submission.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernel_evaluator.numerics import compare
from kernel_evaluator.numerics.allowances import Allowance, weigh, widest
from kernel_evaluator.problems.certificates import DOES_NOT_RUN
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.proofs.examination import MISFITS, Examination
from kernel_evaluator.proofs.null_answers import NULL_ANSWERS, Scene

PLAIN_SEEDS = (101, 202, 303)
CURES = {"upstream": "a tolerance relative to the output"}
_SAMPLE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Whether a problem can be ranked in a precision, and which trivial answers say so."""

    ranked: bool
    evidence: str = ""
    cured_by: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Null answers that satisfy upstream's inputs, each with what tells it apart; empty where nothing."""

    def to_json(self) -> dict[str, Any]:
        """Give the fields that say something."""
        values = {"ranked": self.ranked, "evidence": self.evidence, "cured_by": self.cured_by}
        return {name: value for name, value in values.items() if value != ""}


class Certification:
    """The trial of every null answer against one problem in one precision on one device."""

    def __init__(self, problem: Problem, device: str, precision: str) -> None:
        self._problem = problem
        self.exam = Examination(problem, device, precision)

    def certify(self) -> Certificate:
        """Try every null answer; look for something that tells those apart that get through."""
        if wrong := self._exact_is_wrong():
            return Certificate(ranked=False, evidence=wrong)
        alive = dict.fromkeys(NULL_ANSWERS, "")
        for seed in PLAIN_SEEDS[1:]:
            alive = dict.fromkeys(self._surviving("plain", seed, alive), "")
        if not alive:
            return Certificate(ranked=True)
        answers = self._told_apart(list(alive))
        unseen = [name for name, teller in answers.items() if not teller]
        cure = ", ".join(sorted({CURES.get(teller, teller) for teller in answers.values() if teller}))
        evidence = f"{_listed(alive)} within the tolerance of upstream's inputs, seeds {PLAIN_SEEDS[1:]}"
        if unseen:
            evidence += f"; {_listed(unseen)} on every other distribution and with other weights as well"
        return Certificate(ranked=not unseen, evidence=evidence, cured_by=cure, answers=answers)

    def _exact_is_wrong(self) -> str:
        """Where the reference in float64 is out of tolerance of what is judged; empty in fp32, or nowhere.

        Such a class says nothing of the problem: whoever is more exact than PyTorch is wrong.
        """
        if self.exam.precision == "fp32":
            return ""
        exam, seed = Examination(self._problem, self.exam.device, self.exam.precision), PLAIN_SEEDS[0]
        exam.model = exam.build("affine")
        for distribution in exam.source.distributions():
            inputs = exam.draw(seed, distribution)
            expected = exam.run(inputs, seed)
            try:
                exact = exam.run_exactly(inputs, seed)
            except MISFITS:
                return ""
            for output in range(len(expected)):
                worst = _worst(exam, (distribution, seed, inputs, expected), exact, output)
                if worst > 1:
                    return f"the reference in float64 is {worst:.3g} tolerances away on {distribution} inputs"
        return ""

    def _told_apart(self, names: list[str]) -> dict[str, str]:
        """What tells each null answer from the reference first; empty text where nothing does."""
        answers = dict.fromkeys(names, "")
        alive = names
        for distribution in self.exam.source.distributions():
            alive = self._note(answers, alive, distribution, distribution)
        if alive and self.exam.model.state_dict():
            self.exam.model = self.exam.build("affine")
            self._note(answers, alive, "upstream", "other weights")
        return answers

    def _note(self, answers: dict[str, str], alive: list[str], distribution: str, teller: str) -> list[str]:
        surviving = self._surviving(distribution, PLAIN_SEEDS[0], alive) if alive else []
        answers.update({name: teller for name in alive if name not in surviving})
        return surviving

    def _surviving(self, distribution: str, seed: int, names: Iterable[str]) -> list[str]:
        """The null answers among `names` that pass on one draw; all of them where the draw says nothing."""
        earlier_inputs = self.exam.draw(seed + 1, distribution)
        earlier = self.exam.run(earlier_inputs, seed + 1)
        inputs = self.exam.draw(seed, distribution)
        expected = self.exam.run(inputs, seed)
        if distribution not in ("plain", "upstream") and any(map(compare.has_non_finite, expected)):
            return list(names)
        tolerances = self.exam.tolerances(distribution, seed, inputs, expected)
        return [
            name
            for name in names
            if all(
                self._passes(
                    name,
                    _scene(self.exam, leaf, earlier_inputs, earlier, inputs, expected),
                    tolerances[leaf],
                )
                for leaf in range(len(expected))
            )
        ]

    def _passes(self, name: str, scene: Scene, tolerance: compare.Tolerance | None) -> bool:
        answer = NULL_ANSWERS[name](scene)
        if answer is None or answer.shape != scene.expected.shape:
            return False
        if tolerance is None:
            return True
        if answer.is_contiguous() and scene.expected.is_contiguous():  # most fail early, and then cost little
            first, given = scene.expected.view(-1)[:_SAMPLE], answer.view(-1)[:_SAMPLE]
            if not compare.compare(first, given, tolerance).passes:
                return False
        return compare.compare(scene.expected, answer, tolerance).passes


def _worst(
    exam: Examination,
    drawn: tuple[str, int, list[Any], list[torch.Tensor]],
    found: list[torch.Tensor],
    output: int,
) -> float:
    """The largest error of an output as a share of the tolerance, as judged. 0 where nothing can be asked."""
    distribution, _, _, expected = drawn
    if compare.has_non_finite(expected[output]):
        return 0.0
    known: list[Allowance] = []

    def probe(near: int) -> tuple[Allowance, bool]:
        known.append(exam.rounding(*drawn, near)[output])
        return widest(known), True

    tolerance = compare.tolerance_of(expected[output], exam.precision, distribution)
    weighed = weigh(expected[output], found[output], tolerance, probe)
    return weighed[0].worst if weighed else 0.0


def _scene(
    of: Examination,
    leaf: int,
    earlier_inputs: list[Any],
    earlier: list[torch.Tensor],
    inputs: list[Any],
    expected: list[torch.Tensor],
) -> Scene:
    def part() -> torch.Tensor | None:
        return of.run_part(inputs, leaf, PLAIN_SEEDS[0]) if expected[leaf].numel() <= 1 else None

    return Scene(
        earlier_inputs=earlier_inputs,
        earlier=earlier[leaf],
        inputs=inputs,
        expected=expected[leaf],
        part=part,
    )


def certify(
    problems: Iterable[Problem],
    device: str,
    precision: str,
    known: dict[str, Any],
    limit_s: float = float("inf"),
) -> Iterator[tuple[str, Certificate | str]]:
    """Certify problem after problem; give key and certificate, or the reference's error as text.

    What `known` holds (from `read`) is left out. Stops between problems when the time is up.
    """
    deadline = time.monotonic() + limit_s
    for problem in problems:
        key = f"{problem.level}_{problem.problem_id}"
        if precision in known.get(key, {}).get("precisions", {}):
            continue
        if time.monotonic() > deadline:
            return
        try:
            yield key, Certification(problem, device, precision).certify()
        except (RuntimeError, NotImplementedError, ImportError, TypeError, ValueError) as error:
            yield key, f"{DOES_NOT_RUN}: {type(error).__name__}: {str(error)[:300]}"
        if device == "cuda":
            torch.cuda.empty_cache()


def entry(precision: str, found: Certificate | str) -> dict[str, Any]:
    """One problem's entry: what holds, and the precision for which it was found."""
    shown = found.to_json() if isinstance(found, Certificate) else {"ranked": False, "evidence": found}
    return {**shown, "precisions": {precision: shown}}


def write(path: Path, source: Mapping[str, Any], problems: Mapping[str, Any]) -> None:
    """Write a file of certificates, the problems in their order."""
    ordered = dict(sorted(problems.items(), key=lambda item: tuple(map(int, item[0].split("_")))))
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps({"source": dict(source), "problems": ordered}, indent=1) + "\n", "utf-8")
    temporary.replace(path)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
