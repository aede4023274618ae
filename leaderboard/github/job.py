"""The job that `take` hands to the evaluation: an entry at a commit, its bytes, what is recorded of it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from leaderboard.files.store import StoreError, read_strictly, recorded_path, write_atomically
from leaderboard.files.submission import Submission, load
from leaderboard.github.event import commit_sha

_FILE = "job.json"


@dataclass(frozen=True, kw_only=True)
class EvaluationJob:
    """One evaluation, bound to a commit, a file's content, and the attempt of the run that took it."""

    pull: int
    head_sha: str
    board: str
    entry: str
    submission_sha256: str
    max_usd: float
    fresh: bool = False
    attempt: int = 1


def recorded_with(folder: Path) -> Path:
    """Where a job holds what is recorded of its entry, as `data/` does."""
    return folder / "recorded"


def _submission(folder: Path, entry: str) -> Path:
    return folder / "submission" / f"{Path(entry).name}.json"


def write_job(folder: Path, job: EvaluationJob, raw: bytes, *, data: Path) -> None:
    """Write the job, the submission's bytes as they were named, and the result recorded in `data`, if any."""
    folder.mkdir(parents=True, exist_ok=True)
    recorded = recorded_path(data, job.board, job.entry)
    if recorded.is_file() and not job.fresh:
        copy = recorded_path(recorded_with(folder), job.board, job.entry)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(recorded.read_bytes())
    submission = _submission(folder, job.entry)
    submission.parent.mkdir(exist_ok=True)
    submission.write_bytes(raw)
    write_atomically(folder / _FILE, json.dumps(dataclasses.asdict(job), indent=2, sort_keys=True) + "\n")


def read_job(folder: Path) -> tuple[EvaluationJob, Submission]:
    """Read a job and its submission; raise StoreError where the two do not belong together."""
    values = read_strictly(folder / _FILE, max_bytes=10_000)
    try:
        job = EvaluationJob(**values)
        commit_sha(job.head_sha)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{folder / _FILE}: not a job: {error}") from error
    submission = load(_submission(folder, job.entry))
    if submission.sha256 != job.submission_sha256:
        raise StoreError(f"{folder}: the submission is not the one that the job names")
    return job, submission
