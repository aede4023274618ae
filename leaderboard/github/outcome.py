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
from leaderboard.stages.confirm import needs_second, seconds_again
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
    def taken_up(self) -> tuple[Row, ...]:
        """The first evaluations on record that this run gave the second of."""
        known = {row.key: row for row in self.before.rows if needs_second(row)} if self.before else {}
        pairs = [(known[row.key], row) for row in self.fresh if row.key in known]
        return tuple(first for first, row in pairs if _is_of_the_same(first, row))

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


def _is_of_the_same(first: Row, row: Row) -> bool:
    return (first.kernel_sha256, first.evaluator_sha256) == (row.kernel_sha256, row.evaluator_sha256)


def _bill(published: PublishedResult, spending: Spending | None) -> Bill:
    """What this run spent: its rows hold what an earlier one spent on their first evaluations too."""
    gpu, cpu = _spent(published.fresh)
    gpu_before, cpu_before = _spent(published.taken_up)
    return Bill(
        gpu_seconds=gpu - gpu_before,
        cpu_seconds=cpu - cpu_before,
        usd=spending.usd if spending is not None else None,
    )


def _spent(rows: tuple[Row, ...]) -> tuple[float, float]:
    gpu_again, cpu_again = seconds_again(rows)
    return (
        sum(row.gpu_seconds for row in rows) + gpu_again,
        sum(row.cpu_seconds for row in rows) + cpu_again,
    )


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
