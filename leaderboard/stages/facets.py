"""Scores over families of operators, and which language wins where. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaderboard.stages.speedups import Speedups


@dataclass(frozen=True, kw_only=True)
class FamilyScore:
    """One entry's figures over the ranked problems of a family."""

    problems: int
    deployed_speedup: float
    correct: int


@dataclass(frozen=True, kw_only=True)
class Fastest:
    """The fastest correct kernel of any entry on a problem, where it beats eager PyTorch."""

    entry: str
    language: str


def by_family(
    entries: Mapping[str, Speedups], families: Mapping[str, str]
) -> dict[str, dict[str, FamilyScore]]:
    """Score every entry over each family; `families` maps problems to theirs."""
    if not entries:
        return {}
    problems = next(iter(entries.values())).problems
    of = np.array([families.get(problem, "") for problem in problems])
    found: dict[str, dict[str, FamilyScore]] = {}
    for family in dict.fromkeys(families.values()):
        mask = of == family
        if mask.any():
            found[family] = {name: _score(item, mask) for name, item in entries.items()}
    return found


def wins_by_language(
    fastest: Mapping[str, Fastest], families: Mapping[str, str]
) -> dict[str, list[tuple[str, int]]]:
    """Count, for each family, the fastest kernels by language: most first."""
    counted: dict[str, Counter[str]] = {}
    for problem, item in fastest.items():
        if problem in families:
            counted.setdefault(families[problem], Counter())[item.language] += 1
    return {family: counts.most_common() for family, counts in counted.items()}


def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the (cost, speedup) of which no other is as fast for less, cheapest first."""
    kept: list[tuple[float, float]] = []
    for cost, speedup in sorted(points, key=_cheapest):
        if not kept or speedup > kept[-1][1]:
            kept.append((cost, speedup))
    return kept


def _cheapest(point: Sequence[float]) -> tuple[float, float]:
    return point[0], -point[1]


def _score(item: Speedups, mask: NDArray[np.bool_]) -> FamilyScore:
    logs = item.logs[mask]
    return FamilyScore(
        problems=int(mask.sum()),
        deployed_speedup=float(np.exp(np.fmax(logs, 0.0).mean())),
        correct=int((~np.isnan(logs)).sum()),
    )
