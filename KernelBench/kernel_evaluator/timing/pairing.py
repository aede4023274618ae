"""The arithmetic of a paired measurement: from rounds of both sides to a speedup with its interval.

Pure functions over numbers; no clock, no device.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kernel_evaluator.records.rows import Timing

MIN_ROUNDS = 6
"""The fewest rounds whose order statistics bound the median at 95 %."""

ENOUGH_MISSED = 0.1
"""Timing may end where an interval is tight that misses the median in such a share of cases."""

LEAST_SHARED = 4
"""In deals of fewer calls one cannot do the work of many."""

SECOND_MS, SECOND_SHARE = 0.05, 0.1
"""So much more a batch, and by this share, the reference may take around its calls where it goes second."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """Milliseconds of both sides' deliveries of the same outputs of a round; `counts` says of how many.

    The candidate's first came right after its batch.
    """

    candidate_ms: list[float] = field(default_factory=list)
    reference_ms: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Round:
    """Milliseconds a call of both sides on the same inputs: by their own clocks, and by the oracle's as well.

    `overhead_ms` is what a round trip and the writing of inputs add to the latter, a call of the candidate's,
    who makes `calls`. `placing` counts how often memory was taken anew. A `look` says how outputs were
    delivered, where any were looked at.
    """

    reference_ms: float
    candidate_ms: float
    candidate_wall_ms: float
    overhead_ms: float
    calls: int = 1
    reference_first: bool = True
    placing: int = 0
    look: Look | None = None


@dataclass(frozen=True)
class Part:
    """One batch of each side on the same inputs: the candidate's input sets in order, and the reference's."""

    candidate: list[int]
    reference: list[int]


def round_of(
    part: Part,
    reference: tuple[float, float],
    candidate: tuple[float, float],
    *,
    bias_ms: float,
    reference_first: bool,
    placing: int = 0,
    look: Look | None = None,
) -> Round:
    """What both sides' batches gave, each in milliseconds by the oracle's clock and by the side's own.

    `bias_ms` is how much longer it takes to write a call's inputs to the candidate than to the reference.
    """
    return Round(
        reference_ms=noted(reference[1] / len(part.reference)),
        candidate_ms=noted(candidate[1] / len(part.candidate)),
        candidate_wall_ms=noted(candidate[0] / len(part.candidate)),
        overhead_ms=noted((reference[0] - reference[1]) / len(part.candidate) + bias_ms),
        calls=len(part.candidate),
        reference_first=reference_first,
        placing=placing,
        look=look,
    )


def noted(milliseconds: float) -> float:
    """Milliseconds as rows carry them: what follows from a row is what followed when it was judged."""
    return float(f"{milliseconds:.7g}")


_COLUMNS = ("reference_ms", "candidate_ms", "candidate_wall_ms", "overhead_ms", "calls", "placing")
_LOOKS = ("candidate_ms", "reference_ms", "counts")


def columns(rounds: Sequence[Round]) -> dict[str, Any]:
    """Rounds as columns of plain numbers, a value a round; `looks` are lists, or null for no look."""
    found: dict[str, Any] = {name: [getattr(r, name) for r in rounds] for name in _COLUMNS}
    found["reference_first"] = [int(r.reference_first) for r in rounds]
    found["looks"] = [[list(getattr(r.look, n)) for n in _LOOKS] if r.look else None for r in rounds]
    return found


def from_columns(said: Mapping[str, Any]) -> list[Round]:
    """Read rounds; raise ValueError where columns differ in length, and KeyError where one is missing."""
    rows = zip(*(said[name] for name in (*_COLUMNS, "reference_first", "looks")), strict=True)
    return [
        Round(
            **dict(zip(_COLUMNS, values, strict=True)),
            reference_first=bool(is_first),
            look=_look(*look) if look else None,
        )
        for *values, is_first, look in rows
    ]


def _look(ours: list[float], theirs: list[float], counts: list[int]) -> Look:
    if not len(ours) == len(theirs) == len(counts):
        raise ValueError("of a look, every list must have as many values")
    return Look(candidate_ms=ours, reference_ms=theirs, counts=counts)


def speedup(rounds: Sequence[Round]) -> tuple[float, tuple[float, float]]:
    """The median of the rounds' ratios, and an interval that holds the true median in 95 % of cases."""
    ratios = [r.reference_ms / r.candidate_ms for r in rounds]
    return statistics.median(ratios), median_interval(ratios)


def oracle_ms(rounds: Sequence[Round], most: Callable[[int], float] = lambda calls: math.inf) -> float:
    """The candidate's milliseconds a call by the oracle's clock.

    The overhead is the reference's in the same round, whose own clock is trusted and whose inputs came from
    the same places; the median, in which rounds that either side began weigh the same. No overhead is more
    than `most` says for a batch of so many calls.
    """
    count = Counter(r.reference_first for r in rounds)
    found = sorted(
        (
            r.candidate_wall_ms - min(_overhead_ms(r, rounds), most(r.calls) / r.calls),
            1 / count[r.reference_first],
        )
        for r in rounds
    )
    left = sum(weight for _, weight in found) / 2
    for at, (milliseconds, weight) in enumerate(found):
        left -= weight
        if abs(left) < 1e-9:
            return (milliseconds + found[at + 1][0]) / 2
        if left < 0:
            return milliseconds
    raise ValueError("there are no rounds")


def _overhead_ms(each: Round, rounds: Sequence[Round]) -> float:
    """What a round trip added; where the reference went second not much more than where it went first.

    There the candidate went before: what it leaves on the device may slow what runs right after it.
    """
    if each.reference_first:
        return each.overhead_ms
    batches = [(r.calls, r.overhead_ms * r.calls) for r in rounds if r.reference_first]
    alike = [batch_ms for calls, batch_ms in batches if calls == each.calls]
    first = alike or [batch_ms for _, batch_ms in batches]
    if not first:
        return each.overhead_ms
    return min(each.overhead_ms, ((1 + SECOND_SHARE) * statistics.median(first) + SECOND_MS) / each.calls)


def median_interval(values: Sequence[float], missed: float = 0.05) -> tuple[float, float]:
    """An interval that misses the true median in so few cases, given at least MIN_ROUNDS values."""
    ordered = sorted(values)
    low, high = _median_ranks(len(ordered), missed)
    return ordered[low], ordered[high]


def is_tight(rounds: Sequence[Round], half_width: float) -> bool:
    """Whether an interval for nine of ten cases reaches at most `half_width` (relative) to either side.

    What a row says holds in 95 %. To ask for that here would cost rounds for each stray one among few.
    """
    if len(rounds) < MIN_ROUNDS:
        return False
    ratios = [r.reference_ms / r.candidate_ms for r in rounds]
    middle, (low, high) = statistics.median(ratios), median_interval(ratios, ENOUGH_MISSED)
    return high - middle <= half_width * middle and middle - low <= half_width * middle


def timing(values: Sequence[float]) -> Timing:
    """Summarise milliseconds."""
    return Timing(
        median=statistics.median(values),
        mean=statistics.fmean(values),
        std=statistics.pstdev(values),
        min=min(values),
        max=max(values),
        n=len(values),
    )


@cache
def _median_ranks(n: int, missed: float) -> tuple[int, int]:
    """Zero-based ranks of the order statistics that bound the median, whatever the distribution."""
    below = 0.0
    rank = -1
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if below > missed / 2:
            break
        rank = k
    rank = max(rank, 0)
    return rank, n - 1 - rank
