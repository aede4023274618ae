"""What a kernel is written in, and whether it can be handed to an engine at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernel_evaluator.labels.sources import Backend, recognise
from kernel_evaluator.problems.jobs import Engine, Job, Settings, Verdict, unmeasured_row
from kernel_evaluator.records.rows import Environment, Failure, Status

from leaderboard.checks.kernels import DEEPEST, is_too_deep
from leaderboard.texts.python_source import takes_any_memory

TOO_DEEP = Failure(
    name="NestedTooDeeply",
    message=f"the kernel is nested more than {DEEPEST} levels deep: split its longest expression, or chain "
    "of elif, into several statements",
)


def backends_of(source: str) -> tuple[Backend, ...]:
    """Name what a kernel is written in; plain PyTorch where it is too deep, or too much, to be read."""
    if takes_any_memory(source):
        return (Backend.TORCH,)
    try:
        return recognise(source).backends
    except RecursionError:
        return (Backend.TORCH,)


def judged(engine: Engine, jobs: Iterable[Job], settings: Settings) -> Iterator[Verdict]:
    """Have an engine judge the kernels that can be read; the others get their verdict first."""
    left: list[Job] = []
    for job in jobs:
        if verdict := too_deep(job):
            yield verdict
        else:
            left.append(job)
    if left:
        yield from engine.run(left, settings)


def too_deep(job: Job) -> Verdict | None:
    """Give the verdict on a kernel that no engine can read: it would end the engine."""
    if not is_too_deep(job.source):
        return None
    row = unmeasured_row(job, Status.COMPILE_ERROR, TOO_DEEP)
    return Verdict(row=row, environment=Environment(device="", gpu=""))
