"""Joins results with what is merged. An entry's newest result may be of a version that nobody merged yet.

Evaluation comes before the merge, so a new version's result is recorded while the old one is on the board.
Until the merge the board shows the newest revision that is about the merged file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from kernelbench.rows import ResultFile

from leaderboard import store


def merged_revision(data: Path, result: ResultFile, submissions: Path) -> ResultFile:
    """Give the newest revision that is about the merged submission; the current one where there is none."""
    path = submissions / f"{result.entry}.json"
    if not path.is_file():
        return result
    merged = hashlib.sha256(path.read_bytes()).hexdigest()
    for revision in range(result.revision, 0, -1):
        found = _revision(data, result, revision)
        if found is not None and found.submission_sha256 == merged:
            return found
    return result


def settle_results(data: Path, submissions: Path) -> list[ResultFile]:
    """Put the revision that belongs to the merged file in its place; give the results that were replaced."""
    replaced = []
    for result in store.recorded_results(data):
        belongs = merged_revision(data, result, submissions)
        if belongs.revision != result.revision:
            path = store.recorded_path(data, result.board, result.entry)
            store.write_atomically(path, store.dump_result(belongs))
            replaced.append(result)
    return replaced


def _revision(data: Path, current: ResultFile, revision: int) -> ResultFile | None:
    if revision == current.revision:
        return current
    path = store.history_path(data, current.board, current.entry, revision)
    return store.read_result(path) if path.is_file() else None
