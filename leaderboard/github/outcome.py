"""What `publish` says of an evaluation: the scores it gave, and the rank that the entry would take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_evaluator.records.rows import ResultFile, Row, Status
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.files.ledger import Spending
from leaderboard.files.submission import Submission
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.inspect import Inspection, links_to_kernels
from leaderboard.show.comment import Bill, PullReport, ScoredRun
from leaderboard.stages.aggregate import aggregate, unranked_in
from leaderboard.stages.boards import read_certificates
from leaderboard.stages.confirm import needs_second, seconds_spent
from leaderboard.stages.parts import fresh
from leaderboard.stages.record import Recorded
from leaderboard.stages.standings import Standing
from leaderboard.texts.lists import counted


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """What recording gave: the result, the one before it, and what of others is on the board now.

    `counted` is the submission without what was struck. `has_unread`: files of the board cannot be read.
    """

    recorded: Recorded
    counted: Submission
    before: ResultFile | None
    others: tuple[ResultFile, ...]
    merged: Mapping[str, Submission]
    has_unread: bool = False

    @property
    def fresh(self) -> tuple[Row, ...]:
        """The rows that were not recorded before."""
        known = self.before.rows if self.before is not None else ()
        return tuple(fresh(self.recorded.result, known).values())

    @property
    def judged_again(self) -> list[tuple[Row, Row]]:
        """What was on record of a kernel, and what this run says of it."""
        known = {row.key: row for row in self.before.rows} if self.before is not None else {}
        return [(known[row.key], row) for row in self.fresh if row.key in known]

    @property
    def earlier(self) -> tuple[Row, ...]:
        """The rows of the run before, where this run changed something."""
        return self.before.rows if self.before is not None and self.recorded.changed else ()


def result_report(
    inspection: Inspection,
    submission: Submission,
    published: PublishedResult,
    *,
    board: str,
    spending: Spending | None,
    runner: WorkflowRunner,
) -> PullReport:
    """Say what an evaluation found, where it would stand, and what is left to judge."""
    result = published.recorded.result
    waiting = _waiting(submission, result)
    standing, entrants = would_be_standing(
        (result, *published.others), board, published.counted, published.merged
    )
    if standing is not None and published.has_unread:
        why = "the board has files that cannot be read, so the place is not known; the run's log names them"
        standing = replace(standing, rank=None, unranked_because=why)
    outcome = ScoredRun(
        standing=standing,
        entrants=entrants,
        board=board,
        rows=result.rows,
        earlier=published.earlier,
        bill=_bill(published, spending) if published.fresh else None,
    )
    remark = (
        f"{counted(waiting, 'kernel')} still to judge by this evaluator, or to judge a second time: the "
        "label starts the rest, what is judged stays."
    )
    return PullReport(
        state="failed" if waiting else "done",
        head_sha=inspection.head_sha,
        entry=submission.entry,
        display_name=submission.display_name,
        kernels=len(submission.kernels),
        remark=remark if waiting else "The result is recorded; merging puts the entry on the board.",
        run_url=runner.run_url,
        outcome=outcome,
        links=links_to_kernels(inspection, f"{runner.server_url}/{runner.repository}"),
    )


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


def _waiting(submission: Submission, result: ResultFile) -> int:
    """How many kernels another run could say something of: where nothing is ranked, one failure is enough."""
    ours, unranked = evaluator_sha256(), unranked_in(read_certificates(), submission.precision)

    def is_judged(row: Row) -> bool:
        if row.status is Status.INFRA_ERROR:
            return f"{row.key.level}_{row.key.problem_id}" in unranked
        return row.evaluator_sha256 == ours and not needs_second(row)

    return len(submission.kernels.keys() - {row.key for row in result.rows if is_judged(row)})


def _bill(published: PublishedResult, spending: Spending | None) -> Bill:
    """What this run spent: its rows hold what an earlier one spent on their first evaluations too."""
    gpu, cpu = seconds_spent(published.fresh)
    gpu_before, cpu_before = seconds_spent(
        [before for before, row in published.judged_again if _gave_the_second_of(before, row)]
    )
    return Bill(
        gpu_seconds=gpu - gpu_before,
        cpu_seconds=cpu - cpu_before,
        usd=spending.usd if spending is not None else None,
    )


def _gave_the_second_of(before: Row, row: Row) -> bool:
    is_same = (before.kernel_sha256, before.evaluator_sha256) == (row.kernel_sha256, row.evaluator_sha256)
    return is_same and needs_second(before)


def failed_report(inspection: Inspection, remark: str, runner: WorkflowRunner) -> PullReport:
    """Say why nothing was published. `remark` is our own Markdown."""
    submission = inspection.submission
    return PullReport(
        state="failed",
        head_sha=inspection.head_sha,
        entry=submission.entry if submission else "",
        display_name=submission.display_name if submission else "",
        remark=remark,
        run_url=runner.run_url,
    )
