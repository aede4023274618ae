"""What evaluations cost, a file a month: `data/spending/2026-11.json`. Knows the format and its place."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaderboard.files.store import StoreError, read_list, write_list
from leaderboard.files.typed import require_day

MOST_CALLS = 10**9
"""More than any evaluation makes. Whoever counts them hears strangers, and may have been made to lie."""

_MONTH = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What one evaluation cost at most, in dollars.

    `metered` is false where the cap counts for want of a bill. A run that is started again may evaluate
    again: `attempt` counts from 1, and lines of old have none.
    """

    day: str
    run: int
    entry: str
    board: str
    usd: float
    seconds: float = 0.0
    calls: int = 0
    metered: bool = True
    attempt: int = 1

    def __post_init__(self) -> None:
        require_day("day", self.day)
        for name in ("usd", "seconds"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be 0 or more, got {value!r}")
        if not 0 <= self.calls <= MOST_CALLS:
            raise ValueError(f"calls must be 0 to {MOST_CALLS:,}, got {self.calls!r:.40}")

    @property
    def evaluation(self) -> tuple[int, int, str]:
        """Which evaluation it was: the run, the attempt of it, and the entry."""
        return self.run, self.attempt, self.entry

    @property
    def month(self) -> str:
        """The month it counts for, as YYYY-MM."""
        return self.day[:7]


def read_month(data: Path, month: str) -> tuple[Spending, ...]:
    """Read what was spent in a month; nothing where there is no file. Raises StoreError."""
    return read_list(_path(data, month), "a list of what was spent", Spending)


def read_all(data: Path) -> tuple[Spending, ...]:
    """Read what was spent in all months, oldest first. Raises StoreError."""
    found = sorted((data / "spending").glob("*.json"))
    for path in found:
        if not _MONTH.fullmatch(path.stem):
            raise StoreError(f"{path}: the name must be a month, YYYY-MM.json: rename it or take it away")
    return tuple(item for path in found for item in read_month(data, path.stem))


def write_month(data: Path, month: str, items: tuple[Spending, ...]) -> None:
    """Put a month's list in the place of the one that is there."""
    ordered = sorted(items, key=lambda item: (item.day, *item.evaluation))
    write_list(_path(data, month), map(_plain, ordered))


def _plain(item: Spending) -> dict[str, Any]:
    return {**dataclasses.asdict(item), "usd": round(item.usd, 4), "seconds": round(item.seconds, 1)}


def _path(data: Path, month: str) -> Path:
    if not _MONTH.fullmatch(month):
        raise StoreError(f"a month must be YYYY-MM, got {month!r}")
    return data / "spending" / f"{month}.json"
