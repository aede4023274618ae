"""Which inputs decide a problem: from what distributions timed calls are drawn, and under which weights.

Reads what `kbl certify` found and wrote. What it never looked at is drawn from every distribution alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.problem_set import Problem, read_sizes
from kernel_evaluator.records.places import PROBLEM_SET

SHARPNESS = PROBLEM_SET / "sharpness.json"
"""What was found in fp32; a file beside it says so of half precision."""

USUAL_SHARE = 1 / 16
"""Of timed calls at most so many have upstream's inputs where these do not decide."""

REPLACEABLE_SHARE, IN_HALF_PRECISION = 0.1, 0.75
"""So much of an output may by chance be within tolerance of zero, of a constant or of an earlier output.

Which part that is nobody can name in advance: of two draws it is the same for a hundredth at most. In half
precision tolerances are a hundred times as wide, and so is that part.
"""

TEN_BITS = frozenset({"tf32", "fp16", "fp16 about the mean", "half arithmetic"})
"""Twins that round to ten bits of fraction, as the reference itself does where it works in TF32."""

NEGLIGIBLE = frozenset({"one in 64 left out"})
"""Twins that save so little that inputs are timed which do not tell them, where no others decide."""

SLIGHT = TEN_BITS | NEGLIGIBLE | {"bf16", "bf16 about the mean", "fp8", "fp8 about the mean"}
"""Twins that do nearly all of the work: where nothing tells them, rows say so and the problem is ranked."""


@dataclass(frozen=True, kw_only=True)
class Deal:
    """Shares of timed calls by distribution, and the weights that are timed.

    `blunt` are the twins that nothing catches, or that round as the reference itself does. `undecided` says
    why the problem cannot be judged, if so. `replaceable` is by chance within tolerance, at most.
    """

    shares: Mapping[str, float]
    variant: str = "affine"
    blunt: tuple[str, ...] = ()
    undecided: str = ""
    replaceable: Mapping[str, float] = field(default_factory=dict)


def sharpness_of(precision: str) -> Path:
    """Where it is kept what was found in a precision: what bf16 showed holds for fp16."""
    return SHARPNESS if precision == "fp32" else SHARPNESS.with_name("sharpness-bf16.json")


def deal_for(problem: Problem, precision: str, distributions: list[str]) -> Deal:
    """Say what timed calls of a problem are drawn from; `distributions` are those that it has.

    Where it was not looked at in this size, what was found at reduced sizes holds.
    """
    known = _by_digest(sharpness_of(precision))
    found = known.get(problem.sha256) or known.get(problem.reduced(read_sizes()).sha256)
    if found is None or not set(found["inputs"]) <= set(distributions):
        return Deal(shares=dict.fromkeys(distributions, 1 / len(distributions)))
    return deal_of(found)


def deal_of(found: Mapping[str, Any]) -> Deal:
    """Weigh the distributions of one problem's entry: those that decide share all but upstream's part.

    A distribution decides where every twin is caught that is caught anywhere, and no output is replaceable.
    What the reference does itself is no shortcut.
    """
    inputs: Mapping[str, Mapping[str, Any]] = {name: seen for name, seen in found["inputs"].items() if seen}
    allowed = TEN_BITS if found.get("rounds_to") == "tf32" else frozenset()
    most = REPLACEABLE_SHARE if found.get("precision", "fp32") == "fp32" else IN_HALF_PRECISION
    passing = {name: set(seen["passes"]) - allowed for name, seen in inputs.items()}
    blunt: set[str] = set.intersection(*passing.values()) if passing else set()
    fixed = {name for name, seen in inputs.items() if max(seen["shares"].values(), default=0.0) <= most}
    sharpest = [name for name in inputs if name in fixed and passing[name] == blunt]
    deciding = sharpest or [name for name in inputs if name in fixed and passing[name] - NEGLIGIBLE <= blunt]
    grave = sorted(name for name in blunt if name not in SLIGHT and not name.startswith("step "))
    undecided = f"nothing tells {', '.join(grave)} from the reference" if grave else ""
    if not deciding:
        undecided = undecided or _why(passing, blunt | NEGLIGIBLE, most)
        deciding = [*inputs]
    shares = _shares(deciding)
    return Deal(
        shares=shares,
        variant=found["variant"],
        blunt=tuple(sorted(blunt | (allowed & set(found.get("twins", ()))))),
        undecided=undecided,
        replaceable={
            name: max(
                (inputs[each]["shares"].get(name, 0.0) for each in shares if each in inputs), default=1.0
            )
            for name in ("zero", "constant", "earlier")
        },
    )


def _shares(deciding: list[str]) -> dict[str, float]:
    """Equal shares, but for upstream's where it does not decide: no more than any other's.

    Where nothing says anything, upstream's inputs are as good as any: the problem is not ranked.
    """
    if not deciding:
        return {"upstream": 1.0}
    if "upstream" in deciding:
        return dict.fromkeys(deciding, 1 / len(deciding))
    usual = min(USUAL_SHARE, 1 / (len(deciding) + 1))
    return {"upstream": usual, **dict.fromkeys(deciding, (1 - usual) / len(deciding))}


def _why(passing: Mapping[str, set[str]], blunt: set[str], most: float) -> str:
    """Why no distribution decides: what passes on the best, or how much of its output is replaceable."""
    best = min(passing, key=lambda name: len(passing[name] - blunt), default="")
    if not best:
        return "no distribution says anything"
    left = sorted(passing[best] - blunt)
    if left:
        return f"on {best} inputs, which tell most, {', '.join(left)} passes, and on others it is caught"
    return f"on {best} inputs more than {most:.0%} of the output can be replaced"


@cache
def _by_digest(path: Path) -> dict[str, Mapping[str, Any]]:
    """Every problem that was looked at, by the digest of its source as it runs."""
    problems = read(path)["problems"]
    return {
        found["problem_sha256"]: found
        for sizes in ("reduced", "full")  # where these are the same, a GPU saw more
        for found in problems.get(sizes, {}).values()
        if "error" not in found
    }


def read(path: Path = SHARPNESS) -> dict[str, Any]:
    """Read the file: by sizes (`full`, `reduced`), where it was made, and each problem's entry."""
    if not path.is_file():
        return {"source": {}, "problems": {}}
    values: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return values
