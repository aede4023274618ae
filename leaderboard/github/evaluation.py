"""The verb `evaluate`: the stage of that name, with the repository's settings. Holds no token of the host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Row

from leaderboard.files.store import write_atomically
from leaderboard.github.job import read_job, recorded_with
from leaderboard.github.say import log
from leaderboard.github.settings import RepositorySettings
from leaderboard.show.progress import describe
from leaderboard.stages.engines import EvaluationError, open_place
from leaderboard.stages.evaluate import Evaluation, EvaluationOutcome, evaluate, load_problems

BILL = "bill.json"
"""Where an evaluation leaves what its meter counted; written anew at every look."""


def run_evaluation(settings: RepositorySettings, job_folder: Path, out: Path, *, attempt: int = 1) -> bool:
    """Judge what is left of a job's kernels; give whether every one has a verdict.

    The work file grows under `out`; a second call with the same folder continues where the first stopped,
    and rows that are recorded already and still good are taken over. Raises EvaluationError where the run
    is at another attempt than when the job was taken: its caps were asked for one evaluation.
    """
    job, submission = read_job(job_folder)
    if attempt != job.attempt:
        _Teller(out)("bill", {"usd": 0.0, "seconds": 0.0, "calls": 0})
        raise EvaluationError(
            f"the job was taken by attempt {job.attempt} of this run, and this is attempt {attempt}: what it "
            "may spend was allowed once, so nothing is judged; set the label again, or press the button again"
        )
    board = settings.board(job.board)
    log(f"pull request {job.pull} at {job.head_sha}: {job.entry}, at most ${job.max_usd:.2f}")
    place = open_place(board.engine, board.device, progress=_Teller(out), max_usd=job.max_usd)
    evaluation = Evaluation(
        submission=submission,
        problems=load_problems(ProblemSet(), submission.kernels, board.sizes),
        settings=Settings(
            sizes=board.sizes,
            device=board.device,
            precision=board.precision,
            profile_launches=board.census,
        ),
        gpu=board.gpu,
        recorded=recorded_with(job_folder),
        work_root=out,
    )
    return _is_complete(evaluate(evaluation, place.engine, _show))


class _Teller:
    """Hears what the engine says: keeps the bill, and logs what a person may want to know."""

    def __init__(self, out: Path) -> None:
        self._path = out / BILL

    def __call__(self, event: str, facts: dict[str, Any]) -> None:
        if event in ("spent", "bill"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(facts, sort_keys=True) + "\n")
        if event in ("bill", "again"):
            log(f"{event}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))


def _show(row: Row) -> None:
    log(describe(row))


def _is_complete(outcome: EvaluationOutcome) -> bool:
    waiting = outcome.waiting
    log(f"{outcome.judged} judged now, {outcome.plan.good} still good, {len(waiting)} without a verdict")
    for message in outcome.plan.missing_problems:
        log(message)
    return not waiting and not outcome.plan.missing_problems
