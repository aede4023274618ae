"""The stage `plan`: which kernels still have to be judged. Pure: reads no file, runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel_evaluator.problems.jobs import Job
from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row, Status

from leaderboard.stages.confirm import needs_second

ProblemKey = tuple[int, int]
"""Level and problem id."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which kernels are wanted. An empty set wants all."""

    levels: frozenset[int] = frozenset()
    problems: frozenset[ProblemKey] = frozenset()
    samples: frozenset[int] = frozenset()

    def wants(self, key: KernelKey) -> bool:
        """Say whether the key is in every set that is not empty."""
        return (
            (not self.levels or key.level in self.levels)
            and (not self.problems or (key.level, key.problem_id) in self.problems)
            and (not self.samples or key.sample in self.samples)
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to judge (kernels of one problem next to each other), what stays, and what cannot be judged.

    `kept` holds every earlier row of a kernel and problem that are still the same: good ones, and those
    that a job of this plan will replace. `good` counts wanted kernels that need no job, `unconfirmed` names
    those of them that are to be judged a second time.
    """

    jobs: tuple[Job, ...]
    kept: tuple[Row, ...]
    good: int
    missing_problems: tuple[str, ...]
    unconfirmed: tuple[Job, ...] = ()


def make_plan(
    kernels: Mapping[KernelKey, str],
    problems: Mapping[ProblemKey, Problem],
    *,
    previous: Sequence[ResultFile],
    gpu: str,
    evaluator_sha256: str,
    selection: Selection,
    again: bool = False,
    confirms: bool = True,
) -> Plan:
    """Subtract the rows that are still good from the wanted kernels; earlier files of `previous` win.

    `again` subtracts nothing. Without it a row is good that is of this evaluator and no `infra_error`: that
    is nobody's fault.
    `confirms`: a speedup that counts has to be found twice.
    """
    every = {
        key: Job(key=key, source=kernels[key], problem=problems[key.level, key.problem_id])
        for key in sorted(kernels)
        if (key.level, key.problem_id) in problems
    }
    kept = _still_valid(every, previous, gpu=gpu, evaluator_sha256=evaluator_sha256)
    wanted = [job for job in every.values() if selection.wants(job.key)]
    jobs = tuple(job for job in wanted if again or not _is_good(kept.get(job.key), evaluator_sha256))
    due = {job.key for job in jobs}
    good = [job for job in wanted if job.key not in due]
    return Plan(
        jobs=jobs,
        unconfirmed=tuple(job for job in good if confirms and needs_second(kept[job.key])),
        kept=tuple(kept.values()),
        good=len(good),
        missing_problems=_describe_missing(kernels, problems, selection),
    )


def parse_problem_list(text: str) -> frozenset[ProblemKey]:
    """Read `1/19,2/40`; raise ValueError that names the part that is wrong."""
    return frozenset(_parse_problem(part.strip()) for part in text.split(",") if part.strip())


def _parse_problem(part: str) -> ProblemKey:
    level, _, problem_id = part.replace("_", "/").partition("/")
    if not (level.isdecimal() and problem_id.isdecimal()):
        raise ValueError(f"a problem must look like 1/19 (level/problem), got {part!r}")
    key = KernelKey(int(level), int(problem_id))
    return key.level, key.problem_id


def _still_valid(
    jobs: Mapping[KernelKey, Job], previous: Sequence[ResultFile], *, gpu: str, evaluator_sha256: str
) -> dict[KernelKey, Row]:
    valid: dict[KernelKey, Row] = {}
    for file in previous:
        for row in file.rows:
            job = jobs.get(row.key)
            same = job is not None and _same_work(row, job) and file.environments[row.environment].gpu == gpu
            if same and not _is_good(valid.get(row.key), evaluator_sha256):
                better = row.key not in valid or _is_good(row, evaluator_sha256)
                valid[row.key] = row if better else valid[row.key]
    return valid


def _same_work(row: Row, job: Job) -> bool:
    return row.kernel_sha256 == job.kernel_sha256 and row.problem_sha256 == job.problem.sha256


def _is_good(row: Row | None, evaluator_sha256: str) -> bool:
    if row is None or row.status is Status.INFRA_ERROR:
        return False
    return row.evaluator_sha256 == evaluator_sha256


def _describe_missing(
    kernels: Mapping[KernelKey, str], problems: Mapping[ProblemKey, Problem], selection: Selection
) -> tuple[str, ...]:
    return tuple(
        f"{key}: the problem set has no level {key.level} problem {key.problem_id}; "
        "point --problems at a set that has it, or leave it out with --level or --only"
        for key in sorted(kernels)
        if selection.wants(key) and (key.level, key.problem_id) not in problems
    )
