"""Reads everything the boards are made of: recorded results, their submissions, and the certificates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelbench.problems import DEFAULT_ROOT

from leaderboard import store
from leaderboard.aggregate import aggregate
from leaderboard.merged import merged_results
from leaderboard.standings import Board
from leaderboard.submission import Submission, load

CERTIFICATES = DEFAULT_ROOT / "certificates.json"


def load_boards(
    data: Path = Path("data"), submissions: Path = Path("submissions"), certificates: Path = CERTIFICATES
) -> tuple[Board, ...]:
    """Read the files and aggregate them; raise StoreError or InvalidSubmissionError for a broken one."""
    results = store.recorded_results(data)
    known = read_submissions(submissions, {result.entry for result in results})
    return aggregate(merged_results(data, results, known), known, read_certificates(certificates))


def read_certificates(path: Path = CERTIFICATES) -> dict[str, str]:
    """Read which problems a trivial answer satisfies, and the evidence; none where there is no file."""
    if not path.is_file():
        return {}
    problems: Mapping[str, Mapping[str, object]] = store.read_strictly(path)["problems"]
    return {key: str(facts["evidence"]) for key, facts in problems.items() if not facts["ranked"]}


def read_submissions(folder: Path, entries: Iterable[str]) -> dict[str, Submission]:
    """Read the merged submissions of these entries, those that there are."""
    paths = {entry: folder / f"{entry}.json" for entry in entries}
    return {entry: load(path) for entry, path in sorted(paths.items()) if path.is_file()}
