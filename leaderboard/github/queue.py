"""Who waits for an evaluation and who runs: a list of its own, in a file on a branch of its own. Pure.

An item leaves the list only when its pull request was told how it ended. It is named by its ticket, never by
its run alone: a run that is started again may work off another one.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leaderboard.files.store import read_list, write_list

FILE = "queue.json"
AGAIN = ("again", "second-look")
"""Verbs that judge anew what is judged already."""
PUBLISHING_S = 180.0
"""What an evaluation needs besides judging: to start, and to be recorded and told."""


@dataclass(frozen=True, kw_only=True)
class QueueTicket:
    """What tells an item from every other: which run has it, and what was asked for."""

    run: int
    pull: int
    head_sha: str
    board: str
    entry: str


@dataclass(frozen=True, kw_only=True)
class QueueItem:
    """One evaluation that was asked for, bound to a commit and to the file's content.

    `asked_by` is who set the label, `author` the number of the account that sent the entry. `run` is the run
    that works it off, 0 while it waits; from then on `due` is when it should have ended. Pull request 0 is
    none: a merged entry that a maintainer wants judged, by the `verb` of a button.
    """

    pull: int
    head_sha: str
    board: str
    entry: str
    path: str
    blob_sha: str
    submission_sha256: str
    display_name: str
    kernels: int
    asked_by: str
    author: int
    asked_at: str
    seconds: float
    usd: float | None = None
    verb: str = ""
    run: int = 0
    due: str = ""
    max_usd: float = 0.0
    attempt: int = 1

    def __post_init__(self) -> None:
        for name in ("asked_at", "due") if self.is_running else ("asked_at",):
            text = getattr(self, name)
            try:
                aware = datetime.fromisoformat(text).tzinfo is not None
            except ValueError:
                aware = False
            if not aware:
                raise ValueError(f"{name} must be a moment such as 2026-11-24T12:00:00+00:00, got {text!r}")

    @property
    def ticket(self) -> QueueTicket:
        """What names it among the others."""
        return QueueTicket(
            run=self.run, pull=self.pull, head_sha=self.head_sha, board=self.board, entry=self.entry
        )

    @property
    def is_fresh(self) -> bool:
        """Whether every kernel is judged, whatever is recorded."""
        return self.verb in AGAIN

    @property
    def is_running(self) -> bool:
        """Whether a run works it off."""
        return self.run != 0


@dataclass(frozen=True, kw_only=True)
class QueuePosition:
    """Where an item stands among those that wait for its board, from 1, and when it may be done."""

    number: int
    waiting: int
    done_at: datetime


Queue = tuple[QueueItem, ...]


def read(folder: Path) -> Queue:
    """Read the queue from a checkout of its branch; empty where there is none. Raises StoreError."""
    return read_list(folder / FILE, "a queue", QueueItem)


def write(folder: Path, queue: Queue) -> None:
    """Put the queue into a checkout of its branch."""
    write_list(folder / FILE, map(dataclasses.asdict, queue))


def with_item(queue: Queue, item: QueueItem) -> Queue:
    """Add an item. One of the same pull request and board that waits is replaced, and keeps its place."""
    same = [other for other in queue if _same(other, item) and not other.is_running]
    since = min([item.asked_at, *(other.asked_at for other in same if other.head_sha == item.head_sha)])
    return (*(other for other in queue if other not in same), replace(item, asked_at=since))


def running(queue: Queue, item: QueueItem) -> bool:
    """Say whether this very commit of the pull request is being evaluated for the board."""
    return any(other.is_running and _same(other, item) and other.head_sha == item.head_sha for other in queue)


def without(queue: Queue, ticket: QueueTicket) -> Queue:
    """Take an item out, whether it waits or runs."""
    return tuple(item for item in queue if item.ticket != ticket)


def due_at_once(queue: Queue, ticket: QueueTicket) -> Queue:
    """Note that a run ends without having told its pull request: the next look does."""
    return tuple(replace(i, due="1970-01-01T00:00:00+00:00") if i.ticket == ticket else i for i in queue)


def begun(item: QueueItem, *, run: int, max_usd: float, now: datetime, attempt: int = 1) -> QueueItem:
    """Give an item as it stands once a run works it off, with what that may spend."""
    due = now + timedelta(seconds=2 * item.seconds + 3600)
    return replace(item, run=run, attempt=attempt, max_usd=max_usd, due=stamp(due))


def waiting(item: QueueItem) -> QueueItem:
    """Give an item as it stands while no run has it."""
    return replace(item, run=0, attempt=1, due="", max_usd=0.0)


def replaced(queue: Queue, old: QueueItem, new: QueueItem) -> Queue:
    """Put an item in the place of another; nothing changes where that one is gone or is another by now."""
    return tuple(new if item == old else item for item in queue)


def overdue(queue: Queue, now: datetime) -> Queue:
    """Give the items whose run should have ended."""
    return tuple(item for item in queue if item.is_running and datetime.fromisoformat(item.due) < now)


def in_order(queue: Queue, board: str) -> list[QueueItem]:
    """Give the items that wait for a board, first first.

    The oldest goes first, but nobody goes twice before another went once: neither who asks nor who sent.
    So what waits longest of anybody's is never behind more than one of each of the others.
    """
    ours = [item for item in queue if item.board == board]
    left = sorted((i for i in ours if not i.is_running), key=lambda i: (i.asked_at, i.pull))
    asked = Counter(item.asked_by for item in ours if item.is_running)
    sent = Counter(item.author for item in ours if item.is_running)
    ordered: list[QueueItem] = []
    while left:
        first = min(left, key=lambda i: (asked[i.asked_by], sent[i.author]))
        left.remove(first)
        ordered.append(first)
        asked[first.asked_by] += 1
        sent[first.author] += 1
    return ordered


def next_up(queue: Queue, board: str, at_once: int) -> QueueItem | None:
    """Give the item that may start now; None while as many run as may, or nobody waits."""
    busy = sum(item.is_running and item.board == board for item in queue)
    ordered = in_order(queue, board)
    return ordered[0] if ordered and busy < at_once else None


def place_of(queue: Queue, item: QueueItem, at_once: int, now: datetime) -> QueuePosition:
    """Say where an item stands and when it may be done, if everything takes as long as estimated."""
    ordered = in_order(queue, item.board)
    number = next(n for n, other in enumerate(ordered, 1) if _same(other, item))
    ends = [_expected_end(other) for other in queue if other.is_running and other.board == item.board]
    free = [max(end, now) for end in ends] + [now] * (at_once - len(ends))
    heapq.heapify(free)
    done = now
    for other in ordered[:number]:
        done = heapq.heappop(free) + timedelta(seconds=other.seconds + PUBLISHING_S)
        heapq.heappush(free, done)
    return QueuePosition(number=number, waiting=len(ordered), done_at=done)


def stamp(moment: datetime) -> str:
    """Write a moment as the queue does."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _expected_end(item: QueueItem) -> datetime:
    return datetime.fromisoformat(item.due) - timedelta(seconds=item.seconds + 3600 - PUBLISHING_S)


def _same(one: QueueItem, other: QueueItem) -> bool:
    return (one.pull, one.board, one.pull or one.entry) == (
        other.pull,
        other.board,
        other.pull or other.entry,
    )
