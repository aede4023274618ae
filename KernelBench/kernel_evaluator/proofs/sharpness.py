"""Which inputs tell a shortcut from the reference? Every twin of a problem, on every distribution.

Weights are those that are timed. Runs references only; never sees a submission.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from kernel_evaluator.numerics import compare
from kernel_evaluator.problems import deciding
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.proofs import twins
from kernel_evaluator.proofs.examination import Examination
from kernel_evaluator.records.version import digest_of_files

SEEDS = (404, 505, 606, 707)
FEW_DRAWS = 2
CLEAR, CLEARLY_RIGHT = 10.0, 0.1
"""A twin off by more tolerances, or by fewer, on one draw is not tried on another."""

OF_MANY_KINDS = frozenset({"mixed"})
"""Every draw of these is another kind of inputs: all are tried, however clear the first is."""

DECIDING = (
    "numerics",
    "problems/inputs.py",
    "problems/variants.py",
    "proofs/examination.py",
    "proofs/forgetting.py",
    "proofs/linear_softmax.py",
    "proofs/null_answers.py",
    "proofs/sampled_sums.py",
    "proofs/sharpness.py",
    "proofs/twins.py",
)
"""What a survey hangs on: files and folders of the package."""

_FIRST = (
    "upstream",
    "signed",
    "mixed",
    "one_sided",
    "needles",
    "few_needles",
    "pointed",
    "spikes",
    "heavy_tail",
)
_AT_LEAST = 4
_FAULTS = (RuntimeError, NotImplementedError, ImportError, TypeError, ValueError)
_SHARE_OF, _FEW = 1 << 17, 1 << 16


@dataclass(kw_only=True)
class Sight:
    """What one distribution tells of a problem: each twin's error on each draw, in tolerances; shares.

    `says_nothing`: outputs are not finite, or rounding moves them so far that anything is right. Twins that
    are `absent` could not be made. `needs_all`: one clear draw says nothing of another.
    """

    drawn: dict[str, list[float]] = field(default_factory=dict)
    drawn_shares: dict[str, list[float]] = field(default_factory=dict)
    says_nothing: bool = False
    absent: set[str] = field(default_factory=set)
    needs_all: bool = False

    @property
    def errors(self) -> dict[str, float]:
        """Each twin's least error, but for one draw of many: a single number may be right by luck."""
        return {name: sorted(errors)[len(errors) >= len(SEEDS)] for name, errors in self.drawn.items()}

    @property
    def shares(self) -> dict[str, float]:
        """The largest share of each kind, but for one draw of many."""
        found = self.drawn_shares.items()
        return {name: sorted(shares, reverse=True)[len(shares) >= len(SEEDS)] for name, shares in found}

    def left(self, names: Iterable[str]) -> list[str]:
        """The twins that are to be tried on another draw: two if not clear, and more where these disagree."""
        possible = (name for name in names if name not in self.absent)
        return [name for name in possible if self._is_open(self.drawn.get(name, []))]

    def _is_open(self, errors: list[float]) -> bool:
        if self.needs_all:
            return True
        if len(errors) < FEW_DRAWS:
            return not errors or CLEARLY_RIGHT < errors[0] <= CLEAR
        return min(errors) <= 1 < max(errors)


class Survey:
    """One problem in one precision on one device, with the weights of a variant."""

    def __init__(self, problem: Problem, device: str, precision: str, variant: str) -> None:
        self.exam = Examination(problem, device, precision)
        self.exam.model = self.exam.build(variant)
        low = torch.float16 if device == "cuda" else torch.bfloat16
        scene = self._scene("upstream", SEEDS[0])
        self.twins = twins.twins_of(scene, low if precision == "fp32" else None)

    def see(self, distribution: str) -> Sight:
        """Try every twin on draws of a distribution; on later ones mostly those of which little is known."""
        sight = Sight(needs_all=distribution in OF_MANY_KINDS)
        for seed in SEEDS:
            left = sight.left(self.twins)
            if not left or sight.says_nothing:
                break
            self._see_draw(sight, distribution, seed, left)
        return sight

    def _see_draw(self, sight: Sight, distribution: str, seed: int, names: list[str]) -> None:
        scene = self._scene(distribution, seed)
        if any(map(compare.has_non_finite, scene.expected)):
            sight.says_nothing = True
            return
        tolerances = self.exam.tolerances(distribution, seed, scene.inputs, scene.expected)
        known = [tolerance for tolerance in tolerances if tolerance is not None]
        if len(known) < len(tolerances):
            sight.says_nothing = True
            return
        for name in names:
            given = twins.attempt(self.twins[name], scene)
            if given is None:
                sight.absent.add(name)
            else:
                sight.drawn.setdefault(name, []).append(_worst(scene.expected, given, known))
        for name, share in _shares(scene, known).items():
            sight.drawn_shares.setdefault(name, []).append(share)

    def _scene(self, distribution: str, seed: int) -> twins.TwinScene:
        exam = self.exam
        earlier_inputs, inputs = exam.draw(seed + 1, distribution), exam.draw(seed, distribution)
        return twins.TwinScene(
            model=exam.model,
            run=lambda model, given: exam.run(given, seed, model),
            inputs=inputs,
            expected=exam.run(inputs, seed),
            earlier_inputs=earlier_inputs,
            earlier=exam.run(earlier_inputs, seed + 1),
            run_part=partial(exam.run_part, inputs, seed=seed),
        )


def _worst(
    expected: list[torch.Tensor], given: list[torch.Tensor], tolerances: list[compare.Tolerance]
) -> float:
    """The largest error, in tolerances; where a few elements are clearly wrong, theirs."""
    worst = 0.0
    for one, other, tolerance in zip(expected, given, tolerances, strict=True):
        worst = max(worst, compare.compare(_head(one), _head(other), tolerance).worst)
        if worst <= CLEAR:
            worst = max(worst, compare.compare(one, other, tolerance).worst)
    return worst


def _head(tensor: torch.Tensor) -> torch.Tensor:
    """The first elements along the first axis, contiguous."""
    if tensor.dim() == 0 or tensor.numel() <= _FEW:
        return tensor.contiguous()
    return tensor[: max(1, _FEW * len(tensor) // tensor.numel())].contiguous()


def _shares(scene: twins.TwinScene, tolerances: list[compare.Tolerance]) -> dict[str, float]:
    """What share of an output's elements may be replaced within the tolerance; the largest counts.

    Of those that are not zero, and not exactly what replaces them: that is the problem's doing, as where
    negative sums are cut off, and no tolerance's.
    """
    found: dict[str, float] = {"zero": 0.0, "constant": 0.0, "earlier": 0.0}
    for right, then, tolerance in zip(scene.expected, scene.earlier, tolerances, strict=True):
        if not right.is_floating_point():
            found["earlier"] = max(found["earlier"], float((right == then).double().mean()))
            continue
        flat, other = compare.sample(right, _SHARE_OF), compare.sample(then, _SHARE_OF)
        there = flat != 0
        if not bool(there.any()):
            continue
        flat, other = flat[there], other[there]
        for name, answer in {
            "zero": torch.zeros_like(flat),
            "constant": flat.median().expand_as(flat),
            "earlier": other,
        }.items():
            other_than = flat != answer
            within = int(((compare.errors(flat, answer, tolerance) <= 1) & other_than).sum())
            by_chance = 1  # of few elements
            share = (within - by_chance) / max(int(other_than.sum()) - by_chance, 1)
            found[name] = max(found[name], share)
    return found


def survey(
    problems: Iterable[Problem],
    device: str,
    precision: str,
    known: Mapping[str, Mapping[str, Any]],
    limit_s: float = math.inf,
    problem_s: float = math.inf,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Look at problem after problem; give key and entry. What is `known` as it is now is left out.

    Stops between problems when the time is up; after `problem_s` a problem's other distributions are left
    out, but for the first few.
    """
    deadline = time.monotonic() + limit_s
    for problem in problems:
        key = f"{problem.level}_{problem.problem_id}"
        if is_current(problem, known.get(key)):
            continue
        if time.monotonic() > deadline:
            return
        try:
            yield key, _entry(problem, device, precision, problem_s)
        except _FAULTS as error:
            yield key, _stamp(problem) | {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        if device == "cuda":
            torch.cuda.empty_cache()


def is_current(problem: Problem, found: Mapping[str, Any] | None) -> bool:
    """Whether an entry is of this problem, by the present twins, inputs and tolerances."""
    return found is not None and all(found.get(name) == value for name, value in _stamp(problem).items())


def _stamp(problem: Problem) -> dict[str, Any]:
    return {"problem_sha256": problem.sha256, "survey_sha256": survey_sha256()}


def _entry(problem: Problem, device: str, precision: str, problem_s: float) -> dict[str, Any]:
    """One problem under the weights that decide best: those of every panel, or livelier ones."""
    found = _seen(problem, device, precision, "affine", problem_s)
    deal = deciding.deal_of(found)
    if found["has_weights"] and (deal.undecided or not set(deal.blunt) <= deciding.SLIGHT):
        other = _seen(problem, device, precision, "lively", problem_s)
        livelier = deciding.deal_of(other)
        is_better = (bool(livelier.undecided), len(livelier.blunt)) < (bool(deal.undecided), len(deal.blunt))
        found, deal = (other, deal) if is_better else (found, livelier)
        found["otherwise"] = deal.undecided or f"never caught: {', '.join(deal.blunt)}"
    return _stamp(problem) | found


def _seen(problem: Problem, device: str, precision: str, variant: str, problem_s: float) -> dict[str, Any]:
    started = time.monotonic()
    of = Survey(problem, device, precision, variant)
    inputs: dict[str, Any] = {}
    clearest: dict[str, float] = {}
    for distribution in sorted(of.exam.source.distributions(), key=_told_first):
        if time.monotonic() - started > problem_s and _is_decided(precision, variant, inputs):
            break
        sight = of.see(distribution)
        inputs[distribution] = (
            None
            if sight.says_nothing
            else {
                "passes": {name: _brief(error) for name, error in sight.errors.items() if error <= 1},
                "shares": {name: _brief(share) for name, share in sight.shares.items()},
            }
        )
        for name, error in sight.errors.items():
            clearest[name] = max(_brief(error), clearest.get(name, 0.0))
    same = {name for name, error in clearest.items() if error == 0 and twins.may_do_nothing(name)}
    for seen in inputs.values():
        for name in same if seen else ():
            seen["passes"].pop(name, None)
    is_tf32 = device == "cuda" and precision == "fp32"
    return {
        "precision": precision,
        "variant": variant,
        "has_weights": bool(of.exam.model.state_dict()),
        "rounds_to": "tf32" if is_tf32 and rounds_to_tf32(of.exam.model) else "",
        "twins": {name: error for name, error in clearest.items() if name not in same},
        "inputs": inputs,
    }


def rounds_to_tf32(model: torch.nn.Module) -> bool:
    """Whether a model works in TF32 on a GPU by PyTorch's choice: in convolutions and recurrent layers."""
    kinds = (torch.nn.modules.conv._ConvNd, torch.nn.RNNBase)
    return any(isinstance(module, kinds) for module in model.modules())


def _is_decided(precision: str, variant: str, inputs: Mapping[str, Any]) -> bool:
    """Whether enough was seen to say what decides."""
    if len(inputs) < _AT_LEAST:
        return False
    return not deciding.deal_of({"precision": precision, "variant": variant, "inputs": inputs}).undecided


def _told_first(distribution: str) -> int:
    return _FIRST.index(distribution) if distribution in _FIRST else len(_FIRST)


def _brief(value: float) -> float:
    return float(f"{min(value, 1e9):.3g}")


@cache
def survey_sha256() -> str:
    """Digest of all that a survey hangs on beside the problem."""
    return digest_of_files(DECIDING)


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write the file whole, the problems in their order, a line each."""
    problems = {
        sizes: dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split("_")))))
        for sizes, found in sorted(values["problems"].items())
    }
    parts = [
        f" {json.dumps(sizes)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry)}" for key, entry in found.items())
        + "\n }"
        for sizes, found in problems.items()
    ]
    body = ",\n".join(parts)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(
        f'{{\n"source": {json.dumps(values["source"])},\n"problems": {{\n{body}\n}}\n}}\n', "utf-8"
    )
    temporary.replace(path)
