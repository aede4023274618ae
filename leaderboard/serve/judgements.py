"""What the server keeps in memory: judgements with their states, the queue, and the counts of all time.

Thread-safe. Knows neither HTTP nor processes. Finished judgements are kept up to a number, the oldest go
first, and a finished one drops its source: memory does not grow with the work done.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem


class State(StrEnum):
    """Where a judgement is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class QueueFullError(Exception):
    """No more judgements are taken right now."""


class IdTakenError(Exception):
    """Another kernel, problem or setting was sent under the same id."""


@dataclass
class Judgement:
    """One kernel to judge. Changed by `Judgements` alone, under its lock."""

    id: str
    problem: Problem = field(repr=False)
    source: str = field(repr=False)
    settings: Settings
    state: State = State.QUEUED
    verdict: dict[str, Any] | None = None
    """The row and the environment, as JSON values."""
    attempts: int = 0
    created: float = field(default_factory=time.time)
    started: float | None = None
    finished: float | None = None
    source_sha256: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the digest: the source goes when the judgement is finished."""
        self.source_sha256 = hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    def asks_the_same(self, other: Judgement) -> bool:
        """Whether another judgement is of the same kernel, on the same problem, with the same settings."""
        return (self.source_sha256, self.problem.sha256, self.settings) == (
            other.source_sha256,
            other.problem.sha256,
            other.settings,
        )

    @property
    def is_finished(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in (State.DONE, State.CANCELLED)


class Judgements:
    """Every judgement that the server knows of."""

    def __init__(self, *, max_queued: int, max_kept: int) -> None:
        self._max_queued = max_queued
        self._max_kept = max_kept
        self._known: dict[str, Judgement] = {}
        self._queue: deque[Judgement] = deque()
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._condition = threading.Condition()
        self._closed = False
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, judgement: Judgement) -> Judgement:
        """Queue a judgement; give the known one where its id came before.

        Raises IdTakenError where that one asks for something else, QueueFullError where too many wait.
        """
        with self._condition:
            known = self._known.get(judgement.id)
            if known is not None and not known.asks_the_same(judgement):
                raise IdTakenError(
                    f"id {judgement.id!r} was sent with another kernel, problem or setting; choose a new one"
                )
            if known is not None:
                return known
            if len(self._queue) >= self._max_queued:
                raise QueueFullError(f"{len(self._queue)} judgements wait already")
            self._known[judgement.id] = judgement
            self._queue.append(judgement)
            self._counts["received"] += 1
            self._condition.notify()
            return judgement

    def find(self, judgement_id: str) -> Judgement | None:
        """Look a judgement up; None where it was never there or is kept no more."""
        with self._condition:
            return self._known.get(judgement_id)

    def take(self, most: int) -> list[Judgement]:
        """Wait for work and take it: the first judgement, and others with the same settings; [] at the end.

        What was in a batch that died is taken alone, so that it can do others no harm again.
        """
        with self._condition:
            while not self._queue and not self._closed:
                self._condition.wait()
            if self._closed:
                return []
            first = self._queue[0]
            fellows = [i for i in self._queue if i.settings == first.settings and not i.attempts]
            taken = [first] if first.attempts else fellows[:most]
            for item in taken:
                self._queue.remove(item)
                item.state, item.started = State.RUNNING, time.time()
                item.attempts += 1
            return taken

    def give_back(self, items: Sequence[Judgement]) -> None:
        """Put judgements that got no verdict in front of the queue again."""
        with self._condition:
            for item in reversed(items):
                if item.state is State.RUNNING:
                    item.state, item.started = State.QUEUED, None
                    self._queue.appendleft(item)
            self._condition.notify_all()

    def finish(self, item: Judgement, verdict: dict[str, Any]) -> None:
        """Note a verdict; one for a cancelled judgement is dropped."""
        with self._condition:
            if item.is_finished:
                return
            self._counts[f"status:{verdict['row']['status']}"] += 1
            item.verdict = verdict
            self._end(item, State.DONE)

    def cancel(self, item: Judgement) -> bool:
        """Cancel a judgement; False where it is finished already."""
        with self._condition:
            if item.is_finished:
                return False
            if item.state is State.QUEUED:
                self._queue.remove(item)
            self._end(item, State.CANCELLED)
            return True

    def close(self) -> None:
        """Let everybody who waits for work go."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def gauges(self) -> dict[str, int]:
        """Count what is in which state now."""
        with self._condition:
            running = sum(item.state is State.RUNNING for item in self._known.values())
            return {"queued": len(self._queue), "running": running, "kept": len(self._finished)}

    def totals(self) -> tuple[Counter[str], defaultdict[str, float]]:
        """Copy the counts and the seconds of all time, so that they stand still while they are read."""
        with self._condition:
            return self._counts.copy(), self._seconds.copy()

    def position(self, item: Judgement) -> int | None:
        """How many judgements wait in front of this one; None where it does not wait."""
        with self._condition:
            return self._queue.index(item) if item.state is State.QUEUED else None

    def _end(self, item: Judgement, state: State) -> None:
        now = time.time()
        item.state, item.finished, item.source = state, now, ""
        self._counts[state.value] += 1
        self._seconds["waiting"] += (item.started or now) - item.created
        self._seconds["judging"] += now - (item.started or now)
        self._finished[item.id] = None
        while len(self._finished) > self._max_kept:
            oldest, _ = self._finished.popitem(last=False)
            del self._known[oldest]
