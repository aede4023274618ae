"""What an evaluation may cost, and what it probably will. Pure, but for reading what was recorded.

Three caps hold at once: for an evaluation, for an entry within seven days, for a calendar month. What runs
counts with all that it may still spend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import TypeVar

from kernel_evaluator.engines import epoch
from kernel_evaluator.records.rows import ResultFile

from leaderboard.files.ledger import Spending
from leaderboard.files.submission import Submission
from leaderboard.stages.confirm import seconds_spent
from leaderboard.stages.uses import backends_of

START_UP_S = 30.0
"""Seconds that a container takes to start. Guessed high."""
SECONDS_WHERE_NOTHING_IS_RECORDED = 25.0
"""A kernel's GPU-seconds, a little above the slowest kind that was recorded."""
LEAST_ROWS = 5
"""Rows of a kind that make a mean worth using."""
TELLING_RESULTS = 100
"""Results that tell how long kernels take; each further one would cost its reading."""
TELLING_KERNELS = 2000
"""Kernels whose kind is looked at for that: telling one takes milliseconds."""

T = TypeVar("T")

Seconds = Mapping[str, float]
"""Mean GPU-seconds of a kernel, by its kind."""


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Dollars that may be spent at most: by one evaluation, by an entry in seven days, by all in a month."""

    usd_per_evaluation: float
    usd_per_entry_and_week: float
    usd_per_month: float


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """What a running evaluation may still spend."""

    entry: str
    usd: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What an evaluation probably takes: seconds by the clock, and dollars; None where there is no price."""

    seconds: float
    usd: float | None


def allowance(
    caps: Caps, entry: str, spent: Iterable[Spending], running: Iterable[Reserved], today: date
) -> float:
    """Give the dollars that an evaluation of the entry may spend now; 0 or less where there are none."""
    known, open_now = list(spent), list(running)
    week = (today - timedelta(days=6)).isoformat()
    month = today.isoformat()[:7]
    by_entry = sum(item.usd for item in known if item.entry == entry and item.day >= week)
    by_month = sum(item.usd for item in known if item.month == month)
    return min(
        caps.usd_per_evaluation,
        caps.usd_per_entry_and_week - by_entry - sum(r.usd for r in open_now if r.entry == entry),
        caps.usd_per_month - by_month - sum(r.usd for r in open_now),
    )


def evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """Give at most so many of the items, evenly from the first to the last."""
    return items[:: max(1, -(-len(items) // most))]


def seconds_by_kind(results: Sequence[ResultFile], submissions: Mapping[str, Submission]) -> Seconds:
    """Say how long kernels of each kind took: the mean of recorded rows, where there are enough."""
    found: dict[str, list[float]] = defaultdict(list)
    telling = evenly(results, TELLING_RESULTS)
    for result in telling:
        sources = submissions[result.entry].kernels if result.entry in submissions else {}
        rows = [row for row in result.rows if row.key in sources and row.gpu_seconds > 0]
        for row in evenly(rows, TELLING_KERNELS // len(telling)):
            found[kind_of(sources[row.key])].append(seconds_spent([row])[0])
    return {kind: sum(times) / len(times) for kind, times in found.items() if len(times) >= LEAST_ROWS}


@cache
def kind_of(source: str) -> str:
    """Name what a kernel is written in, as far as that tells how long it takes."""
    if "torch.compile" in source:
        return "torch.compile"
    return backends_of(source)[0].value


def estimate(sources: Iterable[str], seconds: Seconds, *, engine: str, gpu: str) -> Estimate:
    """Estimate what judging these kernels takes, from kernels of the same kinds.

    A kind of which nothing is recorded counts as the slowest that is.
    """
    unknown = max(seconds.values(), default=SECONDS_WHERE_NOTHING_IS_RECORDED)
    times = [seconds.get(kind_of(source), unknown) for source in sources]
    calls = -(-len(times) // epoch.KERNELS_PER_CALL)
    busy = sum(times) + calls * START_UP_S
    price = epoch.price_of(engine, gpu)
    usd = None if price is None else busy * epoch.judging_usd_per_second(price)
    at_once = max(1, min(calls, epoch.MAX_GPUS))
    return Estimate(seconds=busy / at_once, usd=usd)
