"""Scores over families of operators, and which language wins where. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from leaderboard.stages.speedups import Speedups


def by_family(entries: Mapping[str, Speedups], families: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Give every entry's deployed speedup over each family; `families` maps problems to theirs."""
    if not entries:
        return {}
    problems = next(iter(entries.values())).problems
    of = np.array([families.get(problem, "") for problem in problems])
    found: dict[str, dict[str, float]] = {}
    for family in dict.fromkeys(families.values()):
        mask = of == family
        if mask.any():
            found[family] = {name: float(np.exp(item.gains[mask].mean())) for name, item in entries.items()}
    return found


def wins_by_language(
    fastest: Mapping[str, str], families: Mapping[str, str]
) -> dict[str, list[tuple[str, int]]]:
    """Count, for each family, its problems by the language of the fastest kernel: most first."""
    counted: dict[str, Counter[str]] = {}
    for problem, language in fastest.items():
        if problem in families:
            counted.setdefault(families[problem], Counter())[language] += 1
    return {family: counts.most_common() for family, counts in counted.items()}


def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the (cost, speedup) of which no other is as fast for less, cheapest first."""
    kept: list[tuple[float, float]] = []
    for cost, speedup in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or speedup > kept[-1][1]:
            kept.append((cost, speedup))
    return kept
