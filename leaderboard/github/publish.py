"""The verb `publish`: takes the evaluation's work file as hostile input, records, commits, says the outcome.

It trusts the event's pull request and commit alone: the submission is read again from the host, the result is
checked by `record`, every score is computed anew. Nothing of the artifact is run, imported or printed raw.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kernel_evaluator.engines.epoch import price_of
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import ResultFile
from kernel_evaluator.records.version import evaluator_sha256

from leaderboard.files import store
from leaderboard.files.ledger import Spending
from leaderboard.files.merged import merged_results
from leaderboard.files.reviews import Review, add_review
from leaderboard.files.struck import without_struck_kernels
from leaderboard.files.submission import InvalidSubmissionError, Submission
from leaderboard.github import queue
from leaderboard.github.changes import FOLDER
from leaderboard.github.evaluation import BILL
from leaderboard.github.event import EventError, WorkflowRunner, commit_sha, pull_number, run_attempt
from leaderboard.github.gitrepo import GitError, RemoteBranch, commit_to_remote
from leaderboard.github.host import Host, HostError
from leaderboard.github.inspect import Inspection, inspect_merged, inspect_pull
from leaderboard.github.outcome import PublishedResult, failed_report, result_report
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.results import DATA, SUBMISSIONS, results_branch
from leaderboard.github.say import Voice, log
from leaderboard.github.settings import BoardSettings, RepositorySettings
from leaderboard.show.comment import PullReport
from leaderboard.stages.agreement import difference
from leaderboard.stages.boards import read_submissions
from leaderboard.stages.parts import fresh
from leaderboard.stages.record import (
    Case,
    Recorded,
    RefusedError,
    case_of,
    read_work_file,
    record,
    record_spending,
)
from leaderboard.texts.inert import code_span

BASELINES = Path("baselines")


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What is to be published: of which pull request and commit, for which board, and what it could cost.

    `folder` is where the evaluation left its result; `verb` is that of the button that asked, if one did;
    `attempt` is that of the run when it evaluated.
    """

    pull: int
    head_sha: str
    entry: str
    board: str
    max_usd: float
    folder: Path
    verb: str = ""
    attempt: int = 1

    def ticket(self, run: int) -> queue.QueueTicket:
        """What names it in the queue."""
        return queue.QueueTicket(
            run=run, pull=self.pull, head_sha=self.head_sha, board=self.board, entry=self.entry
        )

    @classmethod
    def of(cls, environment: Mapping[str, str], folder: Path) -> Publication:
        """Read what `take` handed on; raise EventError where it is malformed."""
        try:
            max_usd = float(environment.get("MAX_USD", ""))
        except ValueError as error:
            raise EventError(f"MAX_USD must be a number: {error}") from error
        return cls(
            pull=0 if environment.get("PULL") == "0" else pull_number(environment.get("PULL")),
            head_sha=commit_sha(environment.get("HEAD_SHA")),
            entry=environment.get("ENTRY", ""),
            board=environment.get("BOARD", ""),
            max_usd=max_usd,
            folder=folder,
            verb=environment.get("VERB", ""),
            attempt=run_attempt(environment, "ATTEMPT"),
        )


class UnusableError(Exception):
    """There is nothing to publish; the message is Markdown of our own, with untrusted parts in code spans."""


@dataclass(frozen=True, kw_only=True)
class _Desk:
    """What this run works with."""

    voice: Voice
    settings: RepositorySettings
    board: BoardSettings
    asked: Publication
    spending: Spending | None
    now: datetime

    @property
    def runner(self) -> WorkflowRunner:
        return self.voice.runner

    @property
    def remote(self) -> RemoteBranch:
        return results_branch(self.settings, self.runner)


def run_publish(
    host: Host,
    runner: WorkflowRunner,
    settings: RepositorySettings,
    asked: Publication,
    now: datetime | None = None,
) -> None:
    """Record, commit and say the outcome, which may be that there is nothing to publish; leave the queue.

    Raises GitError, once that was said, where the result cannot be pushed; HostError where nothing could be
    said: then the item stays in the queue, and the next run that looks tells the pull request.
    """
    board, moment = settings.board(asked.board), now or datetime.now(UTC)
    desk = _Desk(
        voice=Voice(host=host, runner=runner),
        settings=settings,
        board=board,
        asked=asked,
        spending=_spending(asked, board, runner, moment),
        now=moment,
    )
    ticket = asked.ticket(runner.run_id)
    try:
        _publish(desk)
    except HostError:
        with suppress(GitError, store.StoreError):  # else the look that follows counts the cap
            _commit_spending(desk)
        change_queue(settings, runner, lambda found: queue.due_at_once(found, ticket), "queue: untold")
        raise
    change_queue(settings, runner, lambda found: queue.without(found, ticket), "queue: done")


def _publish(desk: _Desk) -> None:
    asked, host = desk.asked, desk.voice.host
    if asked.pull:
        inspection = inspect_pull(host, host.pull(asked.pull), asked.head_sha)
    else:
        inspection = inspect_merged(host, desk.settings.base_ref, asked.head_sha, asked.entry)
    try:
        report = _outcome(inspection, desk)
    except (GitError, store.StoreError) as error:
        branch, said = code_span(desk.settings.results_ref), code_span(str(error), 600)
        remark = (
            f"The result could not be pushed to {branch}: {said}. Once that is mended, re-running "
            "the job *Publish* publishes it: nothing is judged again."
        )
        desk.voice.report(asked.pull, failed_report(inspection, remark, desk.runner))
        raise
    desk.voice.report(asked.pull, report)


def _outcome(inspection: Inspection, desk: _Desk) -> PullReport:
    """Record what there is, the spending at least, and give what is to be said of it."""
    try:
        submission = _submission(inspection)
        _check_current(desk.voice.host, inspection)
        case = _case(desk.asked.folder, submission, desk.board)
        published = _commit(case, desk)
    except UnusableError as error:
        _commit_spending(desk)
        return failed_report(inspection, str(error), desk.runner)
    return result_report(
        inspection,
        submission,
        published,
        board=desk.board.name,
        spending=desk.spending,
        runner=desk.runner,
    )


def _spending(
    asked: Publication, board: BoardSettings, runner: WorkflowRunner, now: datetime
) -> Spending | None:
    """Read what the evaluation's meter counted; where it says nothing that can be, all it could spend counts.

    None where nobody sends a bill.
    """
    if price_of(board.engine, board.gpu) is None:
        return None
    item = Spending(
        day=now.date().isoformat(),
        run=runner.run_id,
        attempt=asked.attempt,
        entry=asked.entry,
        board=board.name,
        usd=asked.max_usd,
        metered=False,
    )
    try:
        bill = store.read_strictly(asked.folder / BILL, max_bytes=10_000)
        usd, seconds, calls = float(bill["usd"]), float(bill["seconds"]), int(bill["calls"])
        if not 0 <= usd <= 2 * asked.max_usd:
            raise ValueError(f"usd must be 0 to twice the cap, got {usd}")
        return replace(item, usd=usd, seconds=seconds, calls=calls, metered=True)
    except (store.StoreError, OSError, ValueError, TypeError, KeyError) as error:
        log(f"no bill came back, so the cap counts: {error}")
        return item


def _commit_spending(desk: _Desk) -> None:
    """Record what was spent where there is no result to record it with."""
    if desk.spending is not None:
        commit_to_remote(desk.remote, lambda clone: _spend(clone / DATA, desk, "record: what was spent"))


def _spend(data: Path, desk: _Desk, message: str) -> str:
    if desk.spending is not None:
        record_spending(data, desk.spending)
    return message


def _submission(inspection: Inspection) -> Submission:
    if inspection.submission is None or inspection.problems:
        raise UnusableError("The entry can no longer be read at the commit that was evaluated.")
    return inspection.submission


def _check_current(host: Host, inspection: Inspection) -> None:
    """Refuse to publish for a pull request whose entry has moved on since the evaluation was asked for."""
    pull = inspection.pull
    if pull.head_sha == inspection.head_sha:
        return
    name = inspection.path.removeprefix(FOLDER)
    now = host.trees(pull.head_sha).entries.get(name)
    if now is None or now.sha != inspection.blob_sha:
        asked, moved = code_span(inspection.head_sha[:12]), code_span(pull.head_sha[:12])
        raise UnusableError(
            f"The entry was changed by a push after the label (from {asked} to {moved}): nothing was "
            "published. The new version needs a new label."
        )


def _case(folder: Path, submission: Submission, board: BoardSettings) -> Case:
    path = store.result_path(folder, board.name, submission.entry)
    if not path.is_file() or path.is_symlink():
        raise UnusableError(
            "The evaluation handed no result on. Its log says why; the label starts it again."
        )
    try:
        result = read_work_file(path)
    except (store.StoreError, RefusedError, OSError) as error:
        raise _refused(error) from error
    return case_of(result, submission, ProblemSet(), BASELINES)


def _refused(error: Exception) -> UnusableError:
    log(str(error))
    return UnusableError(f"The evaluation's result was refused: {code_span(str(error), 300)}.")


def _commit(case: Case, desk: _Desk) -> PublishedResult:
    """Record into a fresh clone of the results' branch and push, anew when another result got in first."""
    done: list[PublishedResult] = []

    def change(clone: Path) -> str:
        path = store.recorded_path(clone / DATA, desk.board.name, case.submission.entry)
        before = store.read_result(path) if path.is_file() else None
        _check_rows(case, before, desk.board)
        try:
            recorded = record(case, desk.asked.folder, data=clone / DATA)
        except (RefusedError, store.StoreError) as error:
            raise _refused(error) from error
        done.append(_published(clone / DATA, recorded, before, case.submission))
        if desk.asked.verb in queue.AGAIN and recorded.changed:
            _log_review(clone / DATA, done[-1], desk)
        return _spend(clone / DATA, desk, _message(recorded.result, desk.asked))

    pushed = commit_to_remote(desk.remote, change)
    log("the result is pushed" if pushed else "the result stands already: nothing to push")
    return done[-1]


def _log_review(data: Path, published: PublishedResult, desk: _Desk) -> None:
    """Say in public what judging anew changed."""
    result = published.recorded.result
    found = {str(after.key): difference(before, after) for before, after in published.judged_again}
    found_again = Review(
        day=desk.now.date().isoformat(),
        run=desk.runner.run_id,
        verb=desk.asked.verb,
        board=result.board,
        entry=result.entry,
        revision=result.revision,
        kernels=len(published.fresh),
        differs={key: words for key, words in found.items() if words},
    )
    add_review(data, found_again)


def _published(
    data: Path, recorded: Recorded, before: ResultFile | None, submission: Submission
) -> PublishedResult:
    """What others have on the board.

    A file that cannot be read keeps no result from the record, but then no rank is told. Strikes are read
    in the checkout of main, where they are written: a branch of results may have none.
    """
    merged: dict[str, Submission] = {}
    others: list[ResultFile] = []
    unread: list[Exception] = []

    def without_strikes(submission: Submission) -> Submission:
        for folder in (data, DATA):
            submission = without_struck_kernels(folder, submission)
        return submission

    counted = submission
    try:
        counted = without_strikes(submission)
    except store.StoreError as error:
        unread.append(error)
    beside = () if unread else sorted((data / "results" / recorded.result.board).glob("*.json"))
    for path in beside:
        if path.stem == recorded.result.entry:
            continue
        try:
            result = store.read_result(path)
            for entry, other in read_submissions(SUBMISSIONS, [result.entry]).items():
                merged[entry] = without_strikes(other)
            others += merged_results(data, [result], merged)
        except (store.StoreError, InvalidSubmissionError) as error:
            unread.append(error)
    for trouble in unread:
        log(f"no rank is told: {trouble}")
    return PublishedResult(
        recorded=recorded,
        counted=counted,
        before=before,
        others=tuple(others),
        merged=merged,
        has_unread=bool(unread),
    )


def _check_rows(case: Case, before: ResultFile | None, board: BoardSettings) -> None:
    """Require this evaluator's own rows: others only where the very same row is recorded already."""
    if case.result.board != board.name:
        raise UnusableError(f"The result is for another board than {code_span(board.name)}: refused.")
    ours, new = evaluator_sha256(), fresh(case.result, before.rows if before else ())
    if strange := [row for row in new.values() if row.evaluator_sha256 != ours]:
        raise UnusableError(f"{len(strange)} rows were judged by another evaluator than this one: refused.")


def _message(result: ResultFile, asked: Publication) -> str:
    correct = sum(row.is_correct for row in result.rows)
    subject = f"record: {result.entry} {correct} of {len(result.rows)} correct on {result.board}"
    body = f"Revision {result.revision}: {result.reason}.\nPull request {asked.pull} at {asked.head_sha}."
    return f"{subject}\n\n{body}\n"
