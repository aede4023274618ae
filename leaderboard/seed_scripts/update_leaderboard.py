"""`update_leaderboard`: puts the runs behind three analysis files on the board, under one submission.

An analysis file holds sums, and sums cannot be checked; so the rows that it was made from are looked up in
the run folder it names, and go through `record` like any other result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import ResultFile
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.files.store import StoreError, dump_result, read_strictly, result_path, write_atomically
from leaderboard.files.submission import Submission, load
from leaderboard.files.workfile import with_rows
from leaderboard.runs.run_evaluation import result_of
from leaderboard.seed_scripts.runner import run_script
from leaderboard.show import tables
from leaderboard.stages.boards import load_boards
from leaderboard.stages.evaluate import WORK_ROOT, load_problems
from leaderboard.stages.record import Case, record
from leaderboard.texts.say import say


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The earlier board's options; `level4` and the folders are new."""

    level1: str
    level2: str
    level3: str
    submission: str
    level4: str = ""
    hardware: str = "H100"
    runs_dir: str = "runs"
    data_dir: str = "data"
    work_dir: str = str(WORK_ROOT)


def run(options: Options) -> int:
    """Record the rows and show where the entry stands."""
    submission_path = Path(options.submission)
    submission = load(submission_path)
    named = [path for path in (options.level1, options.level2, options.level3, options.level4) if path]
    parts = [result_of(_run_behind(Path(path), Path(options.runs_dir))) for path in dict.fromkeys(named)]
    result = combine(parts, submission, options.hardware)
    work = result_path(Path(options.work_dir), result.board, result.entry)
    write_atomically(work, dump_result(result))
    problems = load_problems(ProblemSet(PROBLEM_SET), submission.kernels, result.sizes)
    done = record(
        Case(result=result, submission=submission, problems=problems), work, data=Path(options.data_dir)
    )
    say(f"recorded {len(result.rows)} rows in {done.path}")
    boards = load_boards(Path(options.data_dir), submission_path.parent)
    say(tables.as_table([board for board in boards if board.name == result.board]))
    return 0


def combine(parts: Sequence[ResultFile], submission: Submission, hardware: str) -> ResultFile:
    """Join the runs' rows into the submission's result; raise StoreError where they do not fit together."""
    boards = {part.board for part in parts}
    if len(boards) != 1:
        raise StoreError(f"the runs were judged on different boards: {', '.join(sorted(boards))}")
    gpu = parts[0].gpu
    if gpu != hardware:
        raise StoreError(f"hardware={hardware}, and the runs were judged on {gpu}")
    rows = {row.key: row for part in parts for row in part.rows if row.key in submission.kernels}
    environments = {name: env for part in parts for name, env in part.environments.items()}
    whole = dataclasses.replace(
        parts[0],
        entry=submission.entry,
        submission_sha256=submission.sha256,
        started_at=min(part.started_at for part in parts),
        finished_at=max(part.finished_at for part in parts),
    )
    return with_rows(whole, rows, environments)


def _run_behind(analysis: Path, runs_dir: Path) -> RunFolder:
    found = read_strictly(analysis)
    run_name = found.get("run_name") if isinstance(found, dict) else None
    folder = RunFolder(path=runs_dir / str(run_name))
    if not run_name or not folder.path.is_dir():
        raise StoreError(f"{analysis}: names the run {run_name!r}, which is not in {runs_dir}")
    return folder


main = partial(run_script, Options, run)
