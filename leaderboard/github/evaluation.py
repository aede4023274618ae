"""The verb `evaluate`: the stage of that name, with the repository's settings. Holds no token of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelbench.jobs import Settings
from kernelbench.problems import ProblemSet
from kernelbench.rows import Row, Status

from leaderboard.evaluate import Evaluation, Outcome, evaluate, load_problems, open_place
from leaderboard.github.job import read_job, recorded_with
from leaderboard.github.say import log
from leaderboard.github.settings import EvaluationSettings
from leaderboard.plan import Selection
from leaderboard.progress import describe


def run_evaluation(
    settings: EvaluationSettings, job_folder: Path, out: Path, *, levels: frozenset[int]
) -> bool:
    """Judge what is left of a job's kernels of these levels; give whether every one has a verdict.

    The work file grows under `out`; a second call with the same folder continues where the first stopped,
    and rows that are recorded already and still good are taken over.
    """
    job, submission = read_job(job_folder)
    log(f"pull request {job.pull} at {job.head_sha}: {job.entry}")
    place = open_place(settings.engine, settings.device, progress=_tell)
    evaluation = Evaluation(
        submission=submission,
        problems=load_problems(ProblemSet(), submission.kernels, settings.sizes),
        settings=Settings(sizes=settings.sizes, device=settings.device, profile_launches=settings.census),
        gpu=settings.gpu,
        selection=Selection(levels=levels),
        recorded=recorded_with(job_folder),
        work_root=out,
    )
    return _is_complete(evaluate(evaluation, place.engine, _show))


def _show(row: Row) -> None:
    log(describe(row))


def _tell(event: str, facts: dict[str, Any]) -> None:
    if event in ("estimate", "bill", "again"):
        log(f"{event}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))


def _is_complete(outcome: Outcome) -> bool:
    lost = [row.key for row in outcome.added if row.status is Status.INFRA_ERROR]
    waiting = sorted({*outcome.unfinished, *lost})
    log(f"{len(outcome.added)} judged now, {outcome.plan.good} still good, {len(waiting)} without a verdict")
    for message in outcome.plan.missing_problems:
        log(message)
    return not waiting and not outcome.plan.missing_problems
