"""Rows that maintainers took off the board: `data/struck.json`. The recorded rows stay as they are.

A strike names the kernel by its digest, so that another kernel for the same problem is judged for itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.records.rows import ResultFile

from leaderboard.files.store import read_list, write_list
from leaderboard.files.submission import Submission
from leaderboard.files.typed import require_day

_FILE = "struck.json"


@dataclass(frozen=True, kw_only=True)
class Strike:
    """One kernel of an entry whose rows count as missing, since a day and for a reason."""

    entry: str
    key: str
    kernel_sha256: str
    day: str
    why: str

    def __post_init__(self) -> None:
        require_day("day", self.day)


def read_strikes(data: Path) -> tuple[Strike, ...]:
    """Read what was struck; nothing where there is no file. Raises StoreError."""
    return read_list(data / _FILE, "a list of strikes", Strike)


def write_strikes(data: Path, strikes: Iterable[Strike]) -> None:
    """Write the list, oldest first."""
    ordered = sorted(set(strikes), key=lambda strike: (strike.day, strike.entry, strike.key))
    write_list(data / _FILE, map(dataclasses.asdict, ordered))


def without_struck(data: Path, result: ResultFile) -> ResultFile:
    """Leave out the rows that were struck."""
    struck = _struck(data, result.entry)
    if not struck:
        return result
    rows = tuple(row for row in result.rows if (str(row.key), row.kernel_sha256) not in struck)
    return dataclasses.replace(result, rows=rows)


def without_struck_kernels(data: Path, submission: Submission) -> Submission:
    """Leave out the kernels that were struck: scores count them as missing, and wait for none of them."""
    struck = _struck(data, submission.entry)
    if not struck:
        return submission
    digests = submission.digests
    kernels = {
        key: text for key, text in submission.kernels.items() if (str(key), digests[key]) not in struck
    }
    return dataclasses.replace(submission, kernels=kernels)


def _struck(data: Path, entry: str) -> set[tuple[str, str]]:
    return {(strike.key, strike.kernel_sha256) for strike in read_strikes(data) if strike.entry == entry}
