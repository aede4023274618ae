"""What merged entries got when they were judged again, a file a month: `data/reviews/2026-11.json`. Public.

Knows the format and its place. A review is an appeal, or a weekly second look at one of the first ten ranks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.store import read_list, write_list
from leaderboard.files.typed import require_day

FOLDER = "reviews"


@dataclass(frozen=True, kw_only=True)
class Review:
    """One entry judged again on its board: by which verb and run, and what that changed.

    `kernels` were judged anew. `differs` says of each that disagrees with its earlier row in what way.
    `revision` is the result that it made; the one before lies in `data/history/`.
    """

    day: str
    run: int
    verb: str
    board: str
    entry: str
    revision: int
    kernels: int
    differs: Mapping[str, str]

    def __post_init__(self) -> None:
        require_day("day", self.day)
        for key, how in self.differs.items():
            KernelKey.parse(key)
            if not isinstance(how, str):
                raise ValueError(f"differs must say in text how {key} does, got {how!r:.80}")


def read_reviews(data: Path) -> tuple[Review, ...]:
    """Read all reviews, oldest first; nothing where there are none. Raises StoreError."""
    return tuple(review for path in sorted((data / FOLDER).glob("*.json")) for review in _read(path))


def add_review(data: Path, review: Review) -> None:
    """Add a review; what a run says of a revision once more takes the place of what it said before."""
    path = data / FOLDER / f"{review.day[:7]}.json"
    others = [other for other in _read(path) if _what(other) != _what(review)]
    ordered = sorted([*others, review], key=lambda one: (one.day, one.run))
    write_list(path, map(dataclasses.asdict, ordered))


def _what(review: Review) -> tuple[int, str, str, int]:
    return review.run, review.board, review.entry, review.revision


def _read(path: Path) -> tuple[Review, ...]:
    return read_list(path, "a list of reviews", Review)
