"""What the server keeps in memory: judgements with their states, the queue, and the counts of all time.

Thread-safe. Knows neither HTTP nor processes. Finished judgements are kept up to a number, the oldest go
first, and a finished one drops its source: memory does not grow with the work done. What asks for a verdict
that was reached before gets it at once; what asks for one that is being reached waits for that.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey

from leaderboard.files.submission import kernel_sha256
from leaderboard.serve.keys import DEFAULT
from leaderboard.serve.memory import Verdict, VerdictMemory, fingerprint, may_be_kept

FAST_IN_A_ROW = 4
"""So many batches without timing are taken in a row while one with timing waits."""


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
    owner: str = DEFAULT
    again: bool = False
    """Judge it, whatever was found before."""
    place: str = ""
    state: State = State.QUEUED
    verdict: dict[str, Any] | None = None
    """The row and the environment, as JSON values."""
    remembered: bool = False
    attempts: int = 0
    created: float = field(default_factory=time.time)
    started: float | None = None
    finished: float | None = None
    kernel_sha256: str = field(init=False, repr=False)
    fingerprint: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Name what the verdict hangs on: the source goes when the judgement is finished."""
        self.kernel_sha256 = kernel_sha256(self.source)
        self.fingerprint = fingerprint(self.kernel_sha256, self.problem.sha256, self.settings, self.place)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in (State.DONE, State.CANCELLED)


class Judgements:
    """Every judgement that the server knows of."""

    def __init__(self, *, max_queued: int, max_kept: int, memory: VerdictMemory | None = None) -> None:
        self.max_queued = max_queued
        """How many may wait."""
        self._max_kept = max_kept
        self._memory = memory
        self._known: dict[tuple[str, str], Judgement] = {}
        self._queue: deque[Judgement] = deque()
        self._running: dict[tuple[str, str], Judgement] = {}
        self._finished: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._condition = threading.Condition()
        self._closed = False
        self._fast_taken = 0
        self._verdicts = 0
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.on_done: Callable[[Judgement], object] = lambda item: None
        """Called with each judgement that is done."""

    def add(self, judgement: Judgement) -> Judgement:
        """Queue a judgement; give the known one where its id came before."""
        return self.add_all([judgement])[0]

    def add_all(self, judgements: Sequence[Judgement], most: int | None = None) -> list[Judgement]:
        """Queue judgements, all or none; give the known ones where their ids came before.

        `most` is how many of the owner's may wait. Raises IdTakenError where an id stands for something else,
        QueueFullError where too many wait.
        """
        finished, found = self._verdicts, self._remembered(judgements)
        with self._condition:
            if finished != self._verdicts:  # one came meanwhile, perhaps on one of these
                found = self._remembered(judgements)
            new = [item for item in judgements if not self._knows(item)]
            waiting = [item for item in new if item.again or item.fingerprint not in found]
            self._check_room(waiting, most)
            for item in new:
                if self._knows(item):
                    continue
                self._known[item.owner, item.id] = item
                self._counts["received"] += 1
                self._counts[f"key:{item.owner}"] += 1
                if item.fingerprint in found and not item.again:
                    self._answer(item, found[item.fingerprint])
                else:
                    self._queue.append(item)
            self._condition.notify_all()
            return [self._known[item.owner, item.id] for item in judgements]

    def find(self, judgement_id: str, owner: str = DEFAULT) -> Judgement | None:
        """Look a judgement up; None where it was never there or is kept no more."""
        with self._condition:
            return self._known.get((owner, judgement_id))

    def take(self, most: int, timeout_s: float | None = None, problem: str = "") -> list[Judgement] | None:
        """Wait for work and take it: judgements with the same settings, those on one problem first.

        Gives None where none comes in time, [] at the end. `problem` is what the device was on last. What was
        in a batch that died is taken alone, so that it can do others no harm again.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._condition:
            while not self._closed:
                if taken := self._choose(most, problem):
                    for item in taken:
                        self._queue.remove(item)
                        item.state, item.started = State.RUNNING, time.time()
                        item.attempts += 1
                        self._running[item.owner, item.id] = item
                    return taken
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._condition.wait(left_s)
            return []

    def give_back(self, items: Sequence[Judgement]) -> None:
        """Put judgements that got no verdict in front of the queue again."""
        with self._condition:
            for item in reversed(items):
                if item.state is State.RUNNING:
                    item.state, item.started = State.QUEUED, None
                    del self._running[item.owner, item.id]
                    self._queue.appendleft(item)
            self._condition.notify_all()

    def finish(self, item: Judgement, verdict: dict[str, Any]) -> None:
        """Note a verdict, also for what waits for the same; one for a cancelled judgement is dropped.

        One on another source, as of a judgement that was cancelled while its job was made, is not kept.
        """
        kept = (
            self._memory is not None
            and may_be_kept(verdict)
            and verdict["row"]["kernel_sha256"] == item.kernel_sha256
        )
        if kept and self._memory is not None:
            self._memory.keep(item.fingerprint, verdict)
        with self._condition:
            self._verdicts += 1
            if not item.is_finished:
                self._counts[f"status:{verdict['row']['status']}"] += 1
                item.verdict = verdict
                self._end(item, State.DONE)
            for twin in [twin for twin in self._queue if twin.fingerprint == item.fingerprint]:
                if kept and not twin.again:
                    self._queue.remove(twin)
                    self._answer(twin, verdict)
            self._condition.notify_all()

    def cancel(self, item: Judgement) -> bool:
        """Cancel a judgement; False where it is finished already."""
        with self._condition:
            if item.is_finished:
                return False
            if item.state is State.QUEUED:
                self._queue.remove(item)
            self._end(item, State.CANCELLED)
            self._condition.notify_all()
            return True

    def close(self) -> None:
        """Let everybody who waits for work go."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def gauges(self) -> dict[str, int]:
        """Count what is in which state now."""
        with self._condition:
            return {
                "queued": len(self._queue),
                "running": len(self._running),
                "kept": len(self._finished),
            }

    def totals(self) -> tuple[Counter[str], defaultdict[str, float]]:
        """Copy the counts and the seconds of all time, so that they stand still while they are read."""
        with self._condition:
            return self._counts.copy(), self._seconds.copy()

    def position(self, item: Judgement) -> int | None:
        """How many judgements wait in front of this one; None where it does not wait."""
        with self._condition:
            return self._queue.index(item) if item.state is State.QUEUED else None

    def _remembered(self, judgements: Sequence[Judgement]) -> dict[str, Verdict]:
        if self._memory is None:
            return {}
        asked = {item.fingerprint for item in judgements if not item.again}
        found = {key: self._memory.find(key) for key in asked}
        return {key: verdict for key, verdict in found.items() if verdict is not None}

    def _knows(self, item: Judgement) -> bool:
        known = self._known.get((item.owner, item.id))
        if known is not None and known.fingerprint != item.fingerprint:
            raise IdTakenError(
                f"id {item.id!r} was sent with another kernel, problem or setting; choose a new one"
            )
        return known is not None

    def _check_room(self, waiting: Sequence[Judgement], most: int | None) -> None:
        if waiting and len(self._queue) + len(waiting) > self.max_queued:
            raise QueueFullError(f"{len(self._queue)} judgements wait already")
        if waiting and most is not None:
            own = sum(item.owner == waiting[0].owner for item in self._queue)
            if own + len(waiting) > most:
                raise QueueFullError(f"{own} judgements of this key wait already, it may have {most}")

    def _choose(self, most: int, problem: str) -> list[Judgement]:
        busy = {item.fingerprint for item in self._running.values()}
        free = [item for item in self._queue if self._memory is None or item.fingerprint not in busy]
        if not free:
            return []
        first = self._first(free)
        if first.attempts:
            return [first]
        fellows = [item for item in free if item.settings == first.settings and not item.attempts]
        near = problem if any(item.problem.sha256 == problem for item in fellows) else first.problem.sha256
        fellows.sort(key=lambda item: item.problem.sha256 != near)
        if self._memory is None:
            return fellows[:most]
        unlike: dict[str, Judgement] = {}
        for item in fellows:
            unlike.setdefault(item.fingerprint, item)
        return list(unlike.values())[:most]

    def _first(self, free: Sequence[Judgement]) -> Judgement:
        """What is next: what needs no timing goes first, for a while."""
        fast = next((item for item in free if not item.settings.measure), None)
        timed = next((item for item in free if item.settings.measure), None)
        if fast is None or (timed is not None and self._fast_taken >= FAST_IN_A_ROW):
            self._fast_taken = 0
            return timed or free[0]
        self._fast_taken += 1
        return fast

    def _answer(self, item: Judgement, verdict: Verdict) -> None:
        """End a judgement with what was found before; the row names the problem as this one does."""
        key = KernelKey(item.problem.level, item.problem.problem_id)
        item.verdict = {**verdict, "row": {**verdict["row"], "key": str(key)}}
        item.remembered = True
        self._counts["remembered"] += 1
        self._end(item, State.DONE)

    def _end(self, item: Judgement, state: State) -> None:
        now = time.time()
        item.state, item.finished, item.source = state, now, ""
        self._counts[state.value] += 1
        self._seconds["waiting"] += (item.started or now) - item.created
        self._seconds["judging"] += now - (item.started or now)
        if state is State.DONE:
            self.on_done(item)
        self._running.pop((item.owner, item.id), None)
        self._finished[item.owner, item.id] = None
        while len(self._finished) > self._max_kept:
            oldest, _ = self._finished.popitem(last=False)
            del self._known[oldest]
