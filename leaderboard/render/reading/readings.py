"""Reads entries for the site, each in one go: its submission, its results, their scores.

A thousand entries hold gigabytes of sources and hundreds of thousands of rows. One entry is in memory at a
time, and what stays of it is its standings and the lines that tables show.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.rows import ResultFile

from leaderboard.files import store
from leaderboard.files.merged import merged_revision
from leaderboard.files.struck import without_struck_kernels
from leaderboard.files.submission import Submission, filled
from leaderboard.render.parts.csvs import packed_kernels
from leaderboard.render.parts.lines import KernelLine, kernel_lines
from leaderboard.stages.aggregate import Certificates, Scored, score
from leaderboard.stages.confirm import seconds_again

_key = cache(KernelKey.parse)
"""The same few hundred keys stand in every submission."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What stays of one result: its place, its scores without the rows, its rows as tables show them.

    `packed` holds them as CSV.
    `evaluators` counts the rows by the digest of the evaluator that judged them.
    `shown` is the file of the revision that is about the merged submission: `path`, or one of the history.
    """

    path: Path
    shown: Path
    submission_sha256: str
    result_sha256: str
    scored: Scored
    lines: Sequence[KernelLine]
    packed: bytes
    evaluators: Counter[str]

    @property
    def place(self) -> tuple[str, str]:
        """Its board and its entry."""
        return self.path.parent.name, self.path.stem


@dataclass(frozen=True, kw_only=True)
class EntryReader:
    """Reads one entry after another."""

    data: Path
    submissions: Path
    certificates: Certificates

    def read(self, paths: Sequence[Path]) -> list[Reading]:
        """Read an entry's results; raise StoreError for a broken file. Without a submission none counts."""
        results = [_read_result(path) for path in paths]
        submitted = self.submissions / f"{paths[0].stem}.json"
        if not submitted.is_file():
            return []
        submission = _read_submission(submitted)
        return [self._reading(path, result, submission) for path, result in zip(paths, results, strict=True)]

    def _reading(self, path: Path, newest: ResultFile, submission: Submission) -> Reading:
        result = merged_revision(self.data, newest, submission)
        is_newest = result.revision == newest.revision
        earlier = store.history_path(self.data, result.board, result.entry, result.revision)
        scored = score(result, without_struck_kernels(self.data, submission), self.certificates)
        standing = scored.standing
        lines = list(kernel_lines(standing.result, submission.kernels))
        return Reading(
            path=path,
            shown=path if is_newest else earlier,
            submission_sha256=submission.sha256,
            result_sha256=hashlib.sha256((path if is_newest else earlier).read_bytes()).hexdigest(),
            scored=dataclasses.replace(scored, standing=dataclasses.replace(standing, result=_head(result))),
            lines=lines,
            packed=packed_kernels(lines),
            evaluators=Counter(row.evaluator_sha256 for row in standing.result.rows),
        )


def _head(result: ResultFile) -> ResultFile:
    """Give a result without its rows; a file's seconds are its first evaluations', here they are all."""
    gpu_again, cpu_again = seconds_again(result.rows)
    return dataclasses.replace(
        result,
        rows=(),
        gpu_seconds=result.gpu_seconds + gpu_again,
        cpu_seconds=result.cpu_seconds + cpu_again,
    )


def _read_result(path: Path) -> ResultFile:
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise store.StoreError(f"{path}: not a result file: {error}") from error
    return store.in_its_place(store.parse_result(data, path), path)


def _read_submission(path: Path) -> Submission:
    """Read a merged submission; it passed validation before the merge."""
    raw = path.read_bytes()
    try:
        value = json.loads(raw)
        submission = Submission(
            entry=path.stem,
            sha256=hashlib.sha256(raw).hexdigest(),
            metadata=filled(value["metadata"]),
            kernels={_key(name): source for name, source in value["kernels"].items()},
        )
        _ = submission.digests  # a source that is no text shows here
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise store.StoreError(f"{path}: not a submission: {error}; kbl validate says more") from error
    return submission
