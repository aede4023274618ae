"""The public log of audits, as `kbl audit --out` wrote it: what was judged again, when, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.store import StoreError, read_strictly


@dataclass(frozen=True, kw_only=True)
class Look:
    """One kernel judged again: how fast it was and is. `differs` says in what way they disagree."""

    problem: str
    before: float | None
    after: float | None
    differs: str


@dataclass(frozen=True, kw_only=True)
class Audit:
    """One audit of an entry on a board."""

    board: str
    entry: str
    finished_at: str
    evaluator_sha256: str
    looks: tuple[Look, ...]

    @property
    def held(self) -> int:
        """How many rows agree with what was found again."""
        return sum(not look.differs for look in self.looks)


def read_audits(folder: Path) -> tuple[Audit, ...]:
    """Read `<board>/<entry>/*.json` of a folder, newest first; a broken one is a StoreError."""
    audits = (_audit(path) for path in sorted(folder.glob("*/*/*.json")))
    found = [audit for audit in audits if audit.looks]
    return tuple(sorted(found, key=lambda audit: audit.finished_at, reverse=True))


def _audit(path: Path) -> Audit:
    findings = read_strictly(path)
    try:
        return Audit(
            board=path.parent.parent.name,
            entry=path.parent.name,
            finished_at=max((str(item["after"]["finished_at"]) for item in findings), default=""),
            evaluator_sha256=str(findings[0]["after"]["evaluator_sha256"]) if findings else "",
            looks=tuple(_look(item) for item in findings),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"{path}: not what kbl audit --out writes: {error!r}") from error


def _look(item: Mapping[str, Any]) -> Look:
    key = KernelKey.parse(item["key"])
    before, after = item["before"].get("speedup"), item["after"].get("speedup")
    return Look(
        problem=f"{key.level}_{key.problem_id}", before=before, after=after, differs=str(item["differs"])
    )
