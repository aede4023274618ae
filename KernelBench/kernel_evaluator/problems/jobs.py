"""What is asked of an engine: kernels to judge, and how. Records, and how the row of a job begins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import Environment, Failure, Profile, Row, Sizes, Status
from kernel_evaluator.records.version import evaluator_sha256

STANDING_BY = 3
"""So many processes for the next kernels stand by: to open a device can take as long as to judge a kernel."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How kernels are judged: on `cuda` or `cpu`, in fp32, fp16 or bf16; times are seconds a kernel."""

    profile: Profile = "ranked"
    sizes: Sizes = "full"
    device: str = "cuda"
    precision: str = "fp32"
    trials: int = 5
    measure: bool = True
    timeout_s: float = 180.0
    build_timeout_s: float = 600.0
    memory_gb: float = 32.0
    profile_launches: bool = False
    """Label kernels by a profile of what they launch instead of by their source: seconds more a kernel."""
    timing_method: str = "cuda_event"
    """KernelBench's clock, for the profile `compat` alone: `cuda_event`, `host_time` or `do_bench`."""
    switched_off: tuple[str, ...] = ()
    """Layers of the defence that are off: for tests that show what each layer catches."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One kernel to judge: its source as it stands in the submission, and the problem it answers."""

    key: KernelKey
    source: str = field(repr=False)
    problem: Problem = field(repr=False)

    @cached_property
    def kernel_sha256(self) -> str:
        """Digest of the kernel's source."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an engine hands back for one job: the row and the environment that measured it."""

    row: Row
    environment: Environment


def unmeasured_row(job: Job, status: Status, failure: Failure | None = None) -> Row:
    """Begin the row of a job, finished now: all that is known before anything is measured."""
    return Row(
        key=job.key,
        status=status,
        kernel_sha256=job.kernel_sha256,
        problem_sha256=job.problem.sha256,
        evaluator_sha256=evaluator_sha256(),
        failure=failure,
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


Progress = Callable[[str, dict[str, Any]], None]
"""Called with an event's name (`building`, `judging`, …) and its facts; may be ignored."""


class Engine(Protocol):
    """Where kernels run. The one seam between planning an evaluation and carrying it out."""

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Verdict]:
        """Judge every job, yielding verdicts as they come, in any order.

        A kernel's failure is a row's status. A fault of the machinery is a row with `infra_error`.
        """
        ...
