"""Who judges what in a cluster, and what happens to a kernel whose judge is lost. Knows no Ray and no clock.

A judge is a process that owns a device. It keeps to its problem as long as there are kernels of it, and knows
the next kernels. What a lost judge held is given to others; the kernel that it was judging is tried alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from kernel_evaluator.problems.jobs import STANDING_BY, Job, Verdict, unmeasured_row
from kernel_evaluator.records.rows import Environment, Failure, Status

WINDOW = 1 + STANDING_BY
"""Kernels that a judge holds: the one that it judges, and those after it."""
JUDGES_LOST = 2
"""A kernel that so many judges died of is given up."""
NODES_LOST = 6
"""So often a kernel may be on a machine that is lost: that is hardly ever its doing."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A judge is ready."""

    judge: str


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A judge is gone: with its whole machine, or alone."""

    judge: str
    with_node: bool


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A judge reached a verdict."""

    judge: str
    task: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Built:
    """A kernel's build is over; `verdict` where it does not compile, neither where its judge builds it."""

    task: int
    build: object | None = None
    verdict: Verdict | None = None


Event = Joined | Lost | Judged | Built


class Cluster(Protocol):
    """Where the work is done. Calls return at once; what comes of them is told by `poll`."""

    @property
    def can_build(self) -> bool:
        """Whether there are processors for builds, apart from those of judges."""
        ...

    def build(self, task: int, job: Job) -> None:
        """Have a kernel's extensions built."""
        ...

    def judge(self, judge: str, task: int, job: Job, build: object | None) -> None:
        """Have a judge reach a verdict, with what was built."""
        ...

    def poll(self) -> list[Event]:
        """Wait a little for something to happen, and tell it."""
        ...


class Feed(Protocol):
    """Where jobs come from."""

    @property
    def is_over(self) -> bool:
        """Whether no more come."""
        ...

    def take(self) -> list[tuple[Job, bool]]:
        """Give those that have come, each with whether it needs a build."""
        ...


@dataclass
class _Task:
    job: Job
    needs_build: bool
    build: object | None = None
    judges_lost: int = 0
    nodes_lost: int = 0

    @property
    def is_alone(self) -> bool:
        """Whether it is judged with nothing beside: it may have cost a judge, or is built by its judge."""
        return self.judges_lost > 0 or (self.needs_build and self.build is None)


@dataclass
class _Judge:
    held: deque[int] = field(default_factory=deque)
    problem: str = ""
    is_exclusive: bool = False


class Scheduler:
    """Gives kernels to judges until each has one verdict."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tasks: dict[int, _Task] = {}
        self._next = 0
        self._ready: dict[str, deque[int]] = {}
        self._alone: deque[int] = deque()
        self._judges: dict[str, _Judge] = {}
        self._on_problem: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """Judges lost so far: `alone`, or `with_node`."""

    def run(self, feed: Feed) -> Iterator[Verdict]:
        """Give verdicts as they come, one for each job."""
        while True:
            for job, needs_build in feed.take():
                self._add(job, needs_build)
            if feed.is_over and not self._tasks:
                return
            self._assign()
            for event in self._cluster.poll():
                verdict = self._note(event)
                if verdict is not None:
                    yield verdict

    def _add(self, job: Job, needs_build: bool) -> None:
        task, self._next = self._next, self._next + 1
        self._tasks[task] = _Task(job=job, needs_build=needs_build)
        if needs_build and self._cluster.can_build:
            self._cluster.build(task, job)
        else:
            self._offer(task)

    def _offer(self, number: int, *, first: bool = False) -> None:
        task = self._tasks[number]
        queue = self._alone if task.is_alone else self._ready.setdefault(task.job.problem.sha256, deque())
        if first:
            queue.appendleft(number)
        else:
            queue.append(number)

    def _assign(self) -> None:
        for name, judge in self._judges.items():
            while not judge.is_exclusive and len(judge.held) < WINDOW:
                number = self._choose(judge)
                if number is None:
                    break
                task = self._tasks[number]
                judge.held.append(number)
                judge.is_exclusive = task.is_alone
                self._move(judge, task.job.problem.sha256)
                self._cluster.judge(name, number, task.job, task.build)

    def _choose(self, judge: _Judge) -> int | None:
        if self._alone and not judge.held:
            return self._alone.popleft()
        if not self._ready:
            return None
        problem = judge.problem
        if problem not in self._ready:
            problem = max(self._ready, key=lambda name: len(self._ready[name]) / (1 + self._on_problem[name]))
        queue = self._ready[problem]
        number = queue.popleft()
        if not queue:
            del self._ready[problem]
        return number

    def _move(self, judge: _Judge, problem: str) -> None:
        if judge.problem != problem:
            self._on_problem[judge.problem] -= 1
            self._on_problem[problem] += 1
            judge.problem = problem

    def _note(self, event: Event) -> Verdict | None:
        if isinstance(event, Joined):
            self._judges[event.judge] = _Judge()
            return None
        if isinstance(event, Built):
            return self._note_built(event)
        if isinstance(event, Judged):
            return self._note_judged(event)
        return self._note_lost(event)

    def _note_built(self, event: Built) -> Verdict | None:
        if event.task not in self._tasks:
            return None
        if event.verdict is not None:
            del self._tasks[event.task]
            return event.verdict
        self._tasks[event.task].build = event.build
        self._offer(event.task)
        return None

    def _note_judged(self, event: Judged) -> Verdict | None:
        judge = self._judges.get(event.judge)
        if judge is None or event.task not in judge.held:  # it was given up as lost before
            return None
        judge.held.remove(event.task)
        judge.is_exclusive = False
        del self._tasks[event.task]
        return event.verdict

    def _note_lost(self, event: Lost) -> Verdict | None:
        """Give what the judge held to others; what it was judging counts the loss."""
        judge = self._judges.pop(event.judge, None)
        if judge is None:
            return None
        self._on_problem[judge.problem] -= 1
        self.lost["with_node" if event.with_node else "alone"] += 1
        held = list(judge.held)
        for number in reversed(held[1:]):
            self._offer(number, first=True)
        if not held:
            return None
        task = self._tasks[held[0]]
        task.nodes_lost += event.with_node
        task.judges_lost += not event.with_node
        if task.judges_lost < JUDGES_LOST and task.nodes_lost < NODES_LOST:
            self._offer(held[0], first=True)
            return None
        del self._tasks[held[0]]
        return given_up(task.job, task.judges_lost, task.nodes_lost)


def given_up(job: Job, judges_lost: int, nodes_lost: int) -> Verdict:
    """The verdict on a kernel that nobody could judge."""
    message = f"{judges_lost} judging processes and {nodes_lost} machines were lost while they judged it"
    failure = Failure(name="JudgeLost", message=message)
    row = unmeasured_row(job, Status.INFRA_ERROR, failure)
    return Verdict(row=row, environment=Environment(device="", gpu=""))
