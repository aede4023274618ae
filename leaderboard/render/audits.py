"""The public log of what was judged again, when, and what came of it: audits, second looks, appeals.

Audits are what `kbl audit --out` wrote; the others are reviews, which the publishing job writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.reviews import Review, read_reviews
from leaderboard.files.store import StoreError, read_strictly, recorded_path
from leaderboard.render import places

FOLDER = "audits"
WORDS = {"again": "appeal", "second-look": "second look"}
"""What verbs of reviews are called."""


@dataclass(frozen=True, kw_only=True)
class AuditedKernel:
    """One kernel judged again: how fast it was and is. `differs` says in what way they disagree."""

    problem: str
    before: float | None
    after: float | None
    differs: str


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Kernels of an entry on a board, judged again. `looks` are all of them, or those that differ."""

    what: str
    board: str
    entry: str
    finished_at: str
    kernels: int
    looks: tuple[AuditedKernel, ...]
    evaluator_sha256: str = ""

    @property
    def held(self) -> int:
        """How many rows agree with what was found again."""
        return self.kernels - sum(bool(look.differs) for look in self.looks)


def read_audits(data: Path) -> tuple[Audit, ...]:
    """Read `audits/<board>/<entry>/*.json` and the reviews, newest first; a broken one is a StoreError."""
    audits = (_in_its_place(data, _audit(path), path) for path in sorted((data / FOLDER).glob("*/*/*.json")))
    reviews = (_review(review) for review in read_reviews(data))
    found = [audit for audit in (*audits, *reviews) if audit.kernels]
    return tuple(sorted(found, key=lambda audit: audit.finished_at, reverse=True))


def _review(review: Review) -> Audit:
    return Audit(
        what=WORDS.get(review.verb, review.verb),
        board=review.board,
        entry=review.entry,
        finished_at=review.day,
        kernels=review.kernels,
        looks=tuple(
            AuditedKernel(problem=_problem(key), before=None, after=None, differs=differs)
            for key, differs in review.differs.items()
        ),
    )


def _audit(path: Path) -> Audit:
    findings = read_strictly(path)
    try:
        return Audit(
            what="audit",
            board=path.parent.parent.name,
            entry=path.parent.name,
            finished_at=max((str(item["after"]["finished_at"]) for item in findings), default=""),
            evaluator_sha256=str(findings[0]["after"]["evaluator_sha256"]) if findings else "",
            kernels=len(findings),
            looks=tuple(_look(item) for item in findings),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"{path}: not what kbl audit --out writes: {error!r}") from error


def _in_its_place(data: Path, audit: Audit, path: Path) -> Audit:
    if audit.kernels and not recorded_path(data, audit.board, audit.entry).is_file():
        raise StoreError(
            f"{path}: nothing is recorded of {audit.entry} on {audit.board}; "
            f"an audit lies in {FOLDER}/<board>/<entry>/ of a recorded result"
        )
    return audit


def _look(item: Mapping[str, Any]) -> AuditedKernel:
    before, after = item["before"].get("speedup"), item["after"].get("speedup")
    return AuditedKernel(
        problem=_problem(item["key"]), before=before, after=after, differs=str(item["differs"])
    )


def _problem(name: str) -> str:
    return places.problem_id(KernelKey.parse(name))
