"""Where the place of memory shows in how fast the reference is: its bad luck makes no candidate faster.

Which of a candidate's rounds count never hangs on it: it could be fast where it likes. Pure functions over
rounds; no clock, no device.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kernel_evaluator.timing.pairing import MIN_ROUNDS, Round

APART_SHARE = 0.015
"""Two placings are apart by more than this share, beyond what rounds scatter by within one."""

SCATTER_OF = 0.75
"""So many of the rounds stay within what is taken for their scatter.

Launched from a busy processor core some scatter widely while half do not, for as long as a placing lasts.
"""

LEVEL_TIMES, STEADY, BUSY_TIMES = 3, 0.02, 10
"""Placings may differ by so many times the scatter over the root of their rounds: levels are no better known.

And by so many times what the scatter is beyond STEADY: then launches come from processor cores that are slow
for a while, and such a while looks like a place, after many rounds no less so than after few.
"""

STRAYS = 8
"""Of so many placings one may stray to either side: a core that was slow for a while is no place."""


def without_luck(rounds: Sequence[Round]) -> list[Round]:
    """The rounds, with the reference's times such that no luck of its own makes the candidate faster.

    Where its place shows, the ratio is no more than that of both sides where they lie well. A side that lies
    badly in most rounds would else decide a median.
    """
    best_ms = reference_where_it_shows_ms(rounds)
    if best_ms is None:
        return list(rounds)
    ours = _own_ms(rounds)
    usual = statistics.median(r.reference_ms / ours(r) for r in rounds)
    share = min(1.0, best_ms / _well_placed(_levels(rounds, ours)) / usual)
    return [replace(r, reference_ms=r.reference_ms * share) for r in rounds]


def reference_where_it_shows_ms(rounds: Sequence[Round]) -> float | None:
    """Milliseconds of a reference's call where its memory lies well; None where its place does not show.

    Of fewer placings than bound a median, one that met a slow processor core, or a fast one, passes for a
    place.
    """
    levels = _levels(rounds, lambda r: r.reference_ms)
    if len(levels) < MIN_ROUNDS:
        return None
    best_ms, worst_ms = _well_placed(levels), -_well_placed([-level for level in levels])
    return best_ms if worst_ms > best_ms * (1 + APART_SHARE + _leeway(rounds)) else None


def _well_placed(levels: Sequence[float]) -> float:
    """The least level, but for those of a few placings that may be strays."""
    return sorted(levels)[(len(levels) - 1) // STRAYS]


def _by_placing(rounds: Sequence[Round], value: Callable[[Round], float]) -> Collection[list[float]]:
    values: dict[int, list[float]] = {}
    for r in rounds:
        values.setdefault(r.placing, []).append(value(r))
    return values.values()


def _levels(rounds: Sequence[Round], value: Callable[[Round], float]) -> list[float]:
    """The median in each placing."""
    return [statistics.median(some) for some in _by_placing(rounds, value)]


def _leeway(rounds: Sequence[Round]) -> float:
    """How far the reference's placings may differ for no more than its scatter within them, as a share."""
    placings = _by_placing(rounds, lambda r: r.reference_ms)
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


def _own_ms(rounds: Sequence[Round]) -> Callable[[Round], float]:
    """The candidate's milliseconds by its own clock; by the oracle's where that says nothing in a round."""
    if min(r.candidate_ms for r in rounds) <= 0:
        return lambda r: max(r.candidate_wall_ms - r.overhead_ms, 1e-9)
    return lambda r: r.candidate_ms
