"""The public log of withdrawals, corrections and strikes: `data/notices.json`, which the site shows.

Knows the format and its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leaderboard.files.store import read_list, write_atomically
from leaderboard.files.typed import require_day

_FILE = "notices.json"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One line of the log."""

    date: str
    entry: str
    what: str
    why: str

    def __post_init__(self) -> None:
        require_day("date", self.date)


def read_notices(data: Path) -> tuple[Notice, ...]:
    """Read the log, oldest first; nothing where there is no file. Raises StoreError."""
    wanted = ", ".join(field.name for field in dataclasses.fields(Notice))
    return read_list(data / _FILE, f"a list of objects with {wanted}", Notice)


def write_notices(data: Path, notices: Iterable[Notice]) -> None:
    """Write the log, in the order given."""
    lines = [dataclasses.asdict(notice) for notice in notices]
    write_atomically(data / _FILE, json.dumps(lines, indent=1, ensure_ascii=False) + "\n")
