"""Where an entry would stand if its pull request were merged now. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_evaluator.records.rows import ResultFile

from leaderboard.files.submission import Submission
from leaderboard.stages.aggregate import aggregate
from leaderboard.stages.boards import read_certificates
from leaderboard.stages.standings import Standing


def would_be_standing(
    results: Sequence[ResultFile], board: str, submission: Submission, merged: Mapping[str, Submission]
) -> tuple[Standing | None, int]:
    """Give the entry's standing beside the merged ones, and how many of the board are ranked."""
    boards = aggregate(results, {**merged, submission.entry: submission}, read_certificates())
    for found in boards:
        if found.name == board:
            ranked = sum(standing.rank is not None for standing in found.standings)
            mine = [standing for standing in found.standings if standing.entry == submission.entry]
            return (mine[0] if mine else None), ranked
    return None, 0
