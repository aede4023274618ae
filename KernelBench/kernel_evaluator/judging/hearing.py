"""One candidate before the stand: what is known of it so far, and the verdict that may end it early."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

from kernel_evaluator.candidate.frames import Op, Reply
from kernel_evaluator.candidate.processes import RunnerProcess
from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.records.rows import Status
from kernel_evaluator.stand.sides import Side
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.timing.stopping import is_slow

_log = logging.getLogger(__name__)


class Ruled(Exception):
    """A verdict has been reached before the end: a status, what went wrong, and the evidence."""

    def __init__(
        self, status: Status, name: str, message: str, evidence: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.name, self.message, self.evidence = status, name, message, evidence

    def let_go(self) -> Self:
        """Forget where it was raised: those frames hold outputs, which may be gigabytes of a device."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


@dataclass
class Hearing:
    """One candidate before the stand, and what is known of it so far."""

    stand: Stand
    job: Job
    process: RunnerProcess
    quiet: Callable[[], AbstractContextManager[None]]
    phase: Status = Status.COMPILE_ERROR
    side: Side | None = None
    alignment: str = ""
    passed: int = 0
    worst: float = 0.0
    labels: list[str] = field(default_factory=list)
    calls: int = 0
    """How often the candidate's forward was called so far."""
    pace_ms: float = 0.0
    """Milliseconds of a call: the quickest in the trials, then as timed; 0 where none was made."""
    was_spared: bool = False
    """Whether it is timed with weights that it was not tried with before."""
    marked: float = field(default_factory=time.monotonic)
    allowed_s: float | None = None

    def ask(self, op: Op, **facts: Any) -> Reply:
        """Ask the candidate within what is left of its time."""
        return self.process.ask(op, self.left_s(), **facts)

    def left_s(self) -> float:
        """Seconds the candidate may still let us wait; the oracle's own work does not count."""
        allowed_s = self.stand.settings.timeout_s if self.allowed_s is None else self.allowed_s
        return max(allowed_s - self.process.waited_s, 0.01)

    @property
    def is_slow(self) -> bool:
        """Whether calls take so long that there must be few of them, and timed ones count as trials."""
        return self.stand.settings.measure and is_slow(self.pace_ms, self.stand.alone_ms)

    def note_call(self, beyond_ms: float) -> None:
        """Note a call off the clock that took so much longer than the reference's, asking and all."""
        self.calls += 1
        self.pace_ms = min(self.pace_ms or math.inf, self.stand.alone_ms + max(0.0, beyond_ms))

    def mark(self, stage: str) -> None:
        """Note for the log how long a stage took."""
        now = time.monotonic()
        _log.debug("%s %s %.3f s", self.job.key, stage, now - self.marked)
        self.marked = now

    def require_side(self) -> Side:
        """The admitted side; our own mistake where there is none yet."""
        if self.side is None:
            raise RuntimeError("the candidate has no buffers yet")
        return self.side
