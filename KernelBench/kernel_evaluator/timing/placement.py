"""Where the place of memory shows in how fast a side runs: more places are seen, and the reference's best.

Which of a candidate's rounds count never hangs on it: it could be fast where it likes. Pure functions over
rounds; no clock, no device.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from kernel_evaluator.timing.pairing import Round

APART_SHARE = 0.015
"""Two placings are apart by more than this share, beyond what rounds scatter by within one."""

SCATTER_OF = 0.75
"""So many of the rounds stay within what is taken for their scatter.

Launched from a busy processor core some scatter widely while half do not, for as long as a placing lasts.
"""

LEVEL_TIMES, STEADY, BUSY_TIMES = 3, 0.02, 10
"""Draws may differ by so many times the scatter over the root of their rounds: levels are no better known.

And by so many times what the scatter is beyond STEADY: then launches come from processor cores that are slow
for a while, and such a while looks like a place, after many rounds no less so than after few.
"""

BLURRED_TIMES = 3
"""The ratio's scatter counts no further than so many times the reference's, whose times are trusted."""

STRAYS = 8
"""Of so many placings one may stray to either side: a core that was slow for a while is no place."""


def reference_at_best(rounds: Sequence[Round]) -> list[Round]:
    """The rounds, with the reference's times as they are where its memory lies well, if that matters.

    No luck of the reference's makes a candidate faster. Where the ratio does not differ by places, or the
    reference alone does not, nothing changes.
    """
    levels, leeway = _levels(rounds, _reference_ms), _leeway(rounds, _reference_ms)
    ours = _own_ms(rounds)

    def ratio(r: Round) -> float:
        return r.reference_ms / ours(r)

    ratios, of_ratios = _levels(rounds, ratio), _leeway(rounds, ratio)
    if not (_are_apart(levels, leeway) and _are_apart(ratios, min(of_ratios, BLURRED_TIMES * leeway))):
        return list(rounds)
    most = _near(sorted(levels.values())[_strays(levels)], leeway)
    best = statistics.median(level for level in levels.values() if level <= most)
    shares = {placing: 1.0 if level <= most else best / level for placing, level in levels.items()}
    return [replace(r, reference_ms=r.reference_ms * shares[r.placing]) for r in rounds]


def shows(rounds: Sequence[Round]) -> bool:
    """Whether the place of memory shows in the times of a side by its own clock."""
    sides = (_reference_ms, _own_ms(rounds))
    return any(_are_apart(_levels(rounds, side), _leeway(rounds, side)) for side in sides)


def _by_placing(rounds: Sequence[Round], value: Callable[[Round], float]) -> dict[int, list[float]]:
    """The values in each placing."""
    values: dict[int, list[float]] = {}
    for r in rounds:
        values.setdefault(r.placing, []).append(value(r))
    return values


def _levels(rounds: Sequence[Round], value: Callable[[Round], float]) -> dict[int, float]:
    """The median in each placing."""
    return {placing: statistics.median(some) for placing, some in _by_placing(rounds, value).items()}


def _leeway(rounds: Sequence[Round], value: Callable[[Round], float]) -> float:
    """How far placings may differ for no more than how values scatter within them, as a share."""
    placings = _by_placing(rounds, value).values()
    scatter = _scatter(placings)
    of_levels = scatter / math.sqrt(statistics.median(map(len, placings)))
    return LEVEL_TIMES * of_levels + BUSY_TIMES * max(0.0, scatter - STEADY)


def _scatter(placings: Collection[list[float]]) -> float:
    """How far values lie from the median of their placing, as a share; infinite where no placing has two.

    One in each placing says nothing, the nearest, and the others lie nearer to their own median than to that
    of many: by the root of n / (n - 1).
    """
    apart = []
    for some in placings:
        level, factor = statistics.median(some), math.sqrt(len(some) / max(len(some) - 1, 1))
        apart += sorted(abs(each / level - 1) * factor for each in some)[1:]
    return sorted(apart)[math.ceil(SCATTER_OF * len(apart)) - 1] if apart else math.inf


def _are_apart(levels: Mapping[int, float], leeway: float) -> bool:
    """Whether levels differ by more than the leeway, and not only those of a few that may be strays."""
    ordered = sorted(levels.values())
    return ordered[-1 - _strays(levels)] > _near(ordered[_strays(levels)], leeway)


def _strays(levels: Mapping[int, float]) -> int:
    return (len(levels) - 1) // STRAYS


def _near(level: float, leeway: float) -> float:
    """As far up as a level is not apart from another."""
    return level * (1 + APART_SHARE + leeway)


def _reference_ms(r: Round) -> float:
    return r.reference_ms


def _own_ms(rounds: Sequence[Round]) -> Callable[[Round], float]:
    """The candidate's milliseconds by its own clock; by the oracle's where that says nothing in a round."""
    if min(r.candidate_ms for r in rounds) <= 0:
        return _oracle_ms
    return lambda r: r.candidate_ms


def _oracle_ms(r: Round) -> float:
    return max(r.candidate_wall_ms - r.overhead_ms, 1e-9)
