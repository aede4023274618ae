"""Joins results with what is merged. An entry's newest result may be of a version that nobody merged yet.

Evaluation comes before the merge, so a new version's result is recorded while the old one is on the board.
Until the merge every reader of `data/` goes by the revision that is about the merged file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile, Row, Status

from leaderboard.files import store
from leaderboard.files.struck import without_struck
from leaderboard.files.submission import Submission


def merged_results(
    data: Path, results: Iterable[ResultFile], submissions: Mapping[str, Submission]
) -> list[ResultFile]:
    """Give of each result the revision about the merged submission; results without one as they are."""
    return [
        merged_revision(data, result, submissions[result.entry])
        if result.entry in submissions
        else without_struck(data, result)
        for result in results
    ]


def merged_revision(data: Path, result: ResultFile, submission: Submission) -> ResultFile:
    """Give the revision that counts for the merged submission, without the rows that were struck."""
    return without_struck(data, covering_revision(data, result, submission))


def covering_revision(data: Path, result: ResultFile, submission: Submission) -> ResultFile:
    """Give the newest revision about the very file that is merged, else the one that covers most of it.

    A file may be merged that was never evaluated as it is: where only its title changed, an earlier revision
    holds a verdict on every kernel. Of two that cover as much the newer one counts, also where kernels were
    judged anew under another title that has since been changed back: no title brings a verdict back.
    """
    best, most = result, _covered(result, submission)
    for revision in range(result.revision, 0, -1):
        found = _revision(data, result, revision)
        if found is None:
            continue
        if found.submission_sha256 == submission.sha256:
            return best if _judged_anew(best, found, submission) else found
        count = _covered(found, submission)
        if count > most:
            best, most = found, count
    return best


def _judged_anew(newer: ResultFile, older: ResultFile, submission: Submission) -> bool:
    """Whether the newer has other verdicts on kernels of the submission, and verdicts on as many."""
    found, known = _verdicts(newer, submission), _verdicts(older, submission)
    return len(found) >= len(known) and found != known


def _covered(result: ResultFile, submission: Submission) -> int:
    return len(_verdicts(result, submission))


def _verdicts(result: ResultFile, submission: Submission) -> dict[KernelKey, Row]:
    digests = submission.digests
    return {
        row.key: row
        for row in result.rows
        if row.status is not Status.INFRA_ERROR and digests.get(row.key) == row.kernel_sha256
    }


def _revision(data: Path, current: ResultFile, revision: int) -> ResultFile | None:
    if revision == current.revision:
        return current
    path = store.history_path(data, current.board, current.entry, revision)
    return store.read_result(path) if path.is_file() else None
