"""A verdict as a number to train on, and the function that gets it from a server.

    reward(source, level=1, problem_id=19).value

The shaping is `Shaping`, and every part of a value is told beside it. What no honest kernel does scores below
everything that an honest kernel can get, and what waits for a person no more than the worst of these.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from kernel_evaluator.records.rows import Row, Status

from leaderboard.checks.document import MAX_KERNEL_BYTES
from leaderboard.serve import KEY_VARIABLE

if TYPE_CHECKING:
    from leaderboard.client import JudgeClient

URL_VARIABLE = "KBL_URL"


@dataclass(frozen=True, kw_only=True)
class Shaping:
    """What each step on the way to a fast kernel is worth. The parts of a kernel's steps are added up."""

    compiled: float = 0.1
    """It loads, as far as is known, and is wrong, fails, is too slow or takes too much memory."""
    fragile: float = 0.2
    """Right on the trials, wrong on other inputs: beside `compiled`."""
    correct: float = 0.4
    """Right on everything that was tried: beside `compiled`."""
    speedup: float = 0.5
    """At most, for the speedup: beside the two above."""
    full_speedup: float = 8.0
    """The speedup that gets all of that; one of 1 gets nothing, in between it goes by the logarithm."""
    cheat: float = -1.0
    """For what no honest kernel does, and for nothing else."""

    def __post_init__(self) -> None:
        """Refuse a shaping under which cheating could pay, or being wrong pay more than being right."""
        if not (self.cheat < 0 <= self.compiled and 0 <= self.fragile <= self.correct and self.speedup >= 0):
            raise ValueError(
                "a shaping must have cheat < 0 <= compiled, 0 <= fragile <= correct, and speedup >= 0"
            )
        if self.full_speedup <= 1:
            raise ValueError(f"full_speedup must be above 1, got {self.full_speedup}")


@dataclass(frozen=True, kw_only=True)
class Reward:
    """What a kernel gets, and why. `value` is the sum of `parts`.

    Where `is_usable` is not set the machinery failed, not the kernel: leave the sample out of the training.
    """

    value: float
    status: str
    compiled: bool
    correct: bool
    fragile: bool
    cheat: bool
    speedup: float | None = None
    is_usable: bool = True
    parts: dict[str, float] = field(default_factory=dict)
    row: Row | None = field(default=None, repr=False)


SHAPING = Shaping()
_NOT_COMPILED = (Status.COMPILE_ERROR, Status.REJECTED, Status.QUARANTINED, Status.INFRA_ERROR)


def reward_of(row: Row, shaping: Shaping = SHAPING) -> Reward:
    """Score a verdict. Of a speedup the lower end of the interval counts, so that noise pays nothing."""
    compiled = row.status not in _NOT_COMPILED
    parts = {"compiled": shaping.compiled} if compiled else {}
    if row.status is Status.REJECTED:
        parts["cheat"] = shaping.cheat
    elif row.status is Status.FRAGILE:
        parts["fragile"] = shaping.fragile
    elif row.is_correct:
        parts["correct"] = shaping.correct
        if row.speedup_ci95 is not None and row.speedup_ci95[0] > 1:
            share = math.log(row.speedup_ci95[0]) / math.log(shaping.full_speedup)
            parts["speedup"] = shaping.speedup * min(1.0, share)
    return Reward(
        value=sum(parts.values(), 0.0),  # trainers make a tensor of its type
        status=row.status.value,
        compiled=compiled,
        correct=row.is_correct,
        fragile=row.status is Status.FRAGILE,
        cheat=row.status is Status.REJECTED,
        speedup=row.speedup,
        is_usable=row.status is not Status.INFRA_ERROR,
        parts=parts,
        row=row,
    )


def reward(
    source: str | None,
    level: int = 1,
    problem_id: int | None = None,
    *,
    client: JudgeClient | None = None,
    shaping: Shaping = SHAPING,
    **options: Any,
) -> Reward:
    """Have a server judge a kernel, and score the verdict. Options are those of `JudgeClient.submit`.

    On a problem of your own `problem_source` stands in place of `level` and `problem_id`.
    Without a client, the variables KBL_URL and KBL_API_KEY name the server; http://localhost:8900 where the
    first is not set. An answer without code, or one that is no text or longer than a kernel may be, is not
    asked about: it counts as what does not compile. Raises ServerError where the server refuses or is away.
    """
    if not _is_code(source):
        status = Status.COMPILE_ERROR.value
        return Reward(value=0.0, status=status, compiled=False, correct=False, fragile=False, cheat=False)
    row = (client or _client(*_server())).judge(level, problem_id, source, **options)
    return reward_of(row, shaping)


def _is_code(source: str | None) -> TypeGuard[str]:
    """Whether an answer is something that a server takes."""
    try:
        return source is not None and 0 < len(source.encode()) <= MAX_KERNEL_BYTES
    except UnicodeEncodeError:
        return False


def _server() -> tuple[str, str]:
    return os.environ.get(URL_VARIABLE, "http://localhost:8900"), os.environ.get(KEY_VARIABLE, "")


@cache
def _client(url: str, api_key: str) -> JudgeClient:
    """One a process and server: each has connections of its own, and takes a while to be made."""
    from leaderboard.client import JudgeClient

    return JudgeClient(url, api_key)


os.register_at_fork(after_in_child=_client.cache_clear)  # two processes on one connection mix their answers
