"""The verb `gate`: may this evaluation be queued? Reads everything at the commit that was asked for.

A refusal says why in the comment and queues nothing. So does a fault of ours or the host's before
it is queued.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kernel_evaluator.records.rows import ResultFile

from leaderboard.files.banned import read_bans
from leaderboard.files.store import StoreError, read_result
from leaderboard.files.submission import InvalidSubmissionError, Submission
from leaderboard.github import queue
from leaderboard.github.changes import FOLDER, WRITERS
from leaderboard.github.event import StartRequest, WorkflowRunner, start_request
from leaderboard.github.gitrepo import GitError
from leaderboard.github.host import Host, HostError, Pull, is_command
from leaderboard.github.inspect import Inspection, inspect_pull
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.results import DATA, SUBMISSIONS, bring_results
from leaderboard.github.say import Voice, log, queued_report
from leaderboard.github.settings import BoardSettings, RepositorySettings, SettingsError
from leaderboard.show.comment import PullReport
from leaderboard.stages.boards import read_submissions
from leaderboard.stages.money import TELLING_RESULTS, Seconds, estimate, evenly, seconds_by_kind
from leaderboard.texts.inert import code_span


class NotStartedError(Exception):
    """The evaluation may not start. The message is our own Markdown, untrusted parts in code spans."""


def run_gate(
    host: Host, runner: WorkflowRunner, settings: RepositorySettings, now: datetime | None = None
) -> bool:
    """Queue what was asked for and say its place, or say why not; give whether it is queued.

    Raises HostError, GitError or StoreError once the pull request was told, where it could be.
    """
    request = start_request(runner)
    voice = Voice(host=host, runner=runner)
    try:
        return _judge(voice, request, settings, now or datetime.now(UTC))
    except NotStartedError as refusal:
        voice.notice(request.pull, str(refusal))
        return False
    except (HostError, GitError, StoreError) as error:
        voice.trouble(request.pull, f"Nothing was queued, by a fault of ours or the host's: {error}")
        raise


def run_unlabel(host: Host, runner: WorkflowRunner) -> None:
    """Take the one-shot label off, whatever came of it."""
    request = start_request(runner)
    if request.label is not None and is_command(request.label):  # of no board too: such a label did nothing
        host.remove_label(request.pull, request.label)
        log(f"label {request.label} taken off pull request {request.pull}")


def _judge(voice: Voice, request: StartRequest, settings: RepositorySettings, now: datetime) -> bool:
    board = _board(request, settings)
    pull = voice.host.pull(request.pull)
    _check_senders(voice.host, request)
    _check_pull(request, pull, settings)
    if banned := banned_because(pull.author_id):
        raise NotStartedError(banned)
    inspection = inspect_pull(voice.host, pull, request.head_sha)
    _check_kind(inspection)
    _check_still_merged(voice.host, inspection)
    _check_precision(inspection, board, settings)
    if not inspection.is_ready:
        voice.report(pull.number, _invalid(inspection, voice.runner))
        return False
    item = _item(inspection, request, settings, board, voice.runner, now)
    _queue(voice, item, settings, board)
    return True


def _board(request: StartRequest, settings: RepositorySettings) -> BoardSettings:
    try:
        if request.label is not None:
            board = settings.board_of_label(request.label)
        else:
            board = settings.board(request.board or settings.boards[0].name)
    except SettingsError as error:
        raise NotStartedError(f"There is no such board: {code_span(str(error), 300)}.") from error
    if board.closed_because:
        raise NotStartedError(
            f"Nothing can be evaluated for the board {code_span(board.name)}: "
            f"{code_span(board.closed_because, 300)}."
        )
    return board


def _check_senders(host: Host, request: StartRequest) -> None:
    for sender in request.senders:
        role = host.role(sender)
        if role not in WRITERS:
            who, what = code_span(sender), code_span(role)
            raise NotStartedError(
                f"An evaluation starts only for people with write access. {who} has the role {what}, "
                "so this did nothing. A maintainer will look at the pull request."
            )


def _check_pull(request: StartRequest, pull: Pull, settings: RepositorySettings) -> None:
    by_hand = request.label is None
    if pull.base_ref != settings.base_ref:
        raise NotStartedError(f"Only pull requests against {code_span(settings.base_ref)} are evaluated.")
    if pull.state != "open" and not (by_hand and pull.is_merged):
        raise NotStartedError("The pull request is closed, so nothing was started.")
    if pull.head_sha != request.head_sha:
        asked, now = code_span(request.head_sha[:12]), code_span(pull.head_sha[:12])
        raise NotStartedError(
            f"The evaluation was asked for commit {asked}, and the pull request has moved to {now} since: "
            "nothing was started. Look at what was pushed, then ask again."
        )


def banned_because(account: int) -> str:
    """Say why entries of an account are not evaluated, in our own Markdown; empty where they are."""
    for ban in read_bans():
        if ban.id == account:
            return (
                f"Entries of {code_span(ban.login)} are not evaluated since {code_span(ban.since)}: "
                f"{code_span(ban.reason, 500)}. Whoever thinks this is wrong opens an issue with the form "
                "*wrong result*; a maintainer other than the one who decided looks at it."
            )
    return ""


def _check_still_merged(host: Host, inspection: Inspection) -> None:
    if not inspection.pull.is_merged or inspection.problems:
        return
    now = host.trees(inspection.pull.base_ref).entries.get(inspection.path.removeprefix(FOLDER))
    if now is None or now.sha != inspection.blob_sha:
        raise NotStartedError("The merged entry has been changed or withdrawn since, so nothing was started.")


def _check_kind(inspection: Inspection) -> None:
    if inspection.change.kind == "code" and not inspection.problems:
        raise NotStartedError(
            "This pull request sends no entry under `submissions/`, so nothing was started."
        )
    if inspection.change.kind == "withdrawal" and not inspection.problems:
        raise NotStartedError("This pull request withdraws entries, so there is nothing to evaluate.")


def _check_precision(inspection: Inspection, board: BoardSettings, settings: RepositorySettings) -> None:
    submission = inspection.submission
    if submission is None or submission.precision == board.precision:
        return
    fitting = [other for other in settings.boards if other.precision == submission.precision]
    labels = ", ".join(code_span(other.label) for other in fitting) or "none here"
    raise NotStartedError(
        f"The entry's precision is {code_span(submission.precision)} (`metadata.precision`), and "
        f"{code_span(board.name)} is a board for {code_span(board.precision)}: nothing was started. "
        f"Labels of boards that take it: {labels}."
    )


def _invalid(inspection: Inspection, runner: WorkflowRunner) -> PullReport:
    return PullReport(
        state="invalid",
        head_sha=inspection.head_sha,
        problems=inspection.problems,
        run_url=runner.run_url,
    )


def _queue(voice: Voice, item: queue.QueueItem, settings: RepositorySettings, board: BoardSettings) -> None:
    def add(waiting: queue.Queue) -> queue.Queue:
        if queue.running(waiting, item):
            raise NotStartedError("This very commit is being evaluated: nothing more was started.")
        return queue.with_item(waiting, item)

    there = change_queue(settings, voice.runner, add, f"queue: {item.entry} for {item.board}")
    place = queue.place_of(there, item, board.at_once, datetime.fromisoformat(item.asked_at))
    try:
        voice.report(item.pull, queued_report(item, place, voice.runner))
    except HostError as error:  # it is queued, and stays so
        log(f"{item.entry} is queued, and its pull request could not be told: {error}")


def _seconds() -> Seconds:
    """Say how long kernels took; what cannot be read of others keeps nobody from being queued."""
    results: list[ResultFile] = []
    submissions: dict[str, Submission] = {}
    for path in evenly(sorted((DATA / "results").glob("*/*.json")), TELLING_RESULTS):
        try:
            submissions |= read_submissions(SUBMISSIONS, [path.stem])
            results.append(read_result(path))
        except (StoreError, InvalidSubmissionError) as error:
            log(f"left out of the estimate: {error}")
    return seconds_by_kind(results, submissions)


def _item(
    inspection: Inspection,
    request: StartRequest,
    settings: RepositorySettings,
    board: BoardSettings,
    runner: WorkflowRunner,
    now: datetime,
) -> queue.QueueItem:
    submission = inspection.submission
    if submission is None:
        raise ValueError("an inspection that is ready carries a submission")
    bring_results(settings, runner)
    expected = estimate(submission.kernels.values(), _seconds(), engine=board.engine, gpu=board.gpu)
    return queue.QueueItem(
        pull=inspection.pull.number,
        head_sha=inspection.head_sha,
        board=board.name,
        entry=submission.entry,
        path=inspection.path,
        blob_sha=inspection.blob_sha,
        submission_sha256=submission.sha256,
        display_name=submission.display_name,
        kernels=len(submission.kernels),
        asked_by=request.asked_by,
        author=inspection.pull.author_id,
        asked_at=queue.stamp(now),
        seconds=round(expected.seconds, 1),
        usd=expected.usd,
    )
