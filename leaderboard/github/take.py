"""The verb `take`: the next evaluation of the queue becomes a job, if one may start.

It first looks after those that should have ended. Whoever leaves the queue without a result is told why.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kernel_evaluator.engines.epoch import price_of

from leaderboard.files.ledger import Spending, read_all
from leaderboard.files.store import StoreError
from leaderboard.github import queue
from leaderboard.github.changes import FOLDER
from leaderboard.github.event import WorkflowRunner, write_outputs
from leaderboard.github.gate import banned_because
from leaderboard.github.gitrepo import GitError, commit_to_remote
from leaderboard.github.host import Host, HostError, RefusalError
from leaderboard.github.job import EvaluationJob, write_job
from leaderboard.github.queue import Queue, QueueItem
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.results import DATA, bring_results, results_branch
from leaderboard.github.say import Voice, log, running_report, unfinished_report
from leaderboard.github.settings import BoardSettings, RepositorySettings
from leaderboard.stages.money import Reserved, allowance
from leaderboard.stages.record import record_spending
from leaderboard.texts.inert import annotation, code_span

LEAST_USD = 1.0
"""Dollars with which an evaluation is worth starting, whatever it is thought to cost."""


@dataclass(frozen=True, kw_only=True)
class _Desk:
    """What this run works with. `reserved` is what runs as the ledger is read, with what it may spend."""

    voice: Voice
    settings: RepositorySettings
    now: datetime
    reserved: tuple[Reserved, ...] = ()

    @property
    def runner(self) -> WorkflowRunner:
        return self.voice.runner

    def drop(self, item: QueueItem, why: str) -> Queue:
        """Tell a pull request why its evaluation ends here, then take it out of the queue."""
        self.voice.report(item.pull, unfinished_report(item, why, self.runner))
        return change_queue(
            self.settings,
            self.runner,
            lambda now: queue.without(now, item.ticket),
            f"queue: drop {item.entry}",
        )

    def put(self, new: QueueItem, old: QueueItem, why: str) -> Queue:
        """Put an item into the queue in the place of another."""
        return change_queue(
            self.settings,
            self.runner,
            lambda now: queue.replaced(now, old, new),
            f"queue: {why} {new.entry}",
        )


def run_take(
    host: Host, runner: WorkflowRunner, settings: RepositorySettings, out: Path, now: datetime | None = None
) -> None:
    """Write the job of the item that may start now, with what `publish` is to know as outputs.

    An item over which the host fails waits in its place for a later run, and the next one is tried: else one
    locked pull request would hold up all. Nothing is written where nobody may start. Raises HostError where
    that is the host's fault, GitError or StoreError.
    """
    desk = _Desk(voice=Voice(host=host, runner=runner), settings=settings, now=now or datetime.now(UTC))
    there = change_queue(settings, runner, lambda as_it_is: as_it_is, "queue: begin")
    for item in queue.overdue(there, desk.now):
        there = _look_after(desk, there, item)
    # After the queue was read, so that what ends meanwhile is in one of the two.
    bring_results(settings, runner)
    desk = replace(desk, reserved=_reserved(there))
    troubles: list[HostError] = []
    there = _without_strays(desk, there, troubles)
    for board in settings.boards:
        if _start_one(desk, there, board, out, troubles):
            run_next(host, runner, settings)
            return
    log("nobody may start now")
    for trouble in troubles:
        if not isinstance(trouble, RefusalError):
            raise trouble


def run_next(host: Host, runner: WorkflowRunner, settings: RepositorySettings) -> None:
    """Start another run where somebody may start: each run does so, and so the queue is worked off.

    Where that fails the hourly run does it: what this run has begun or published must not fail with it.
    """
    try:
        there = change_queue(settings, runner, lambda as_it_is: as_it_is, "queue: begin")
        if any(queue.next_up(there, board.name, board.at_once) for board in settings.boards):
            host.work_off()
    except (HostError, GitError, StoreError) as error:
        said = f"no other run was started, the hourly one looks who waits: {error}"
        sys.stdout.write(annotation("warning", said) + "\n")


def _look_after(desk: _Desk, there: Queue, item: QueueItem) -> Queue:
    """Tell the pull request of a run that ended without a word; one that cannot be told waits again.

    What it could spend counts from then on. Where that cannot be noted it stays, and goes on counting.
    """
    try:
        if not desk.voice.host.is_over(item.run):
            return there
        _count_as_spent(desk, item)
    except (HostError, GitError) as error:
        _warn(item, error)
        return there
    try:
        return desk.drop(item, "Its run ended without a word; what it recorded stays.")
    except HostError as error:
        _warn(item, error)
        return desk.put(queue.waiting(item), item, "put back")


def _count_as_spent(desk: _Desk, item: QueueItem) -> None:
    """Note all that an evaluation could spend, unless it said itself what it spent; raise GitError."""
    boards = [board for board in desk.settings.boards if board.name == item.board]
    if boards and price_of(boards[0].engine, boards[0].gpu) is None:
        return
    lost = Spending(
        day=desk.now.date().isoformat(),
        run=item.run,
        attempt=item.attempt,
        entry=item.entry,
        board=item.board,
        usd=item.max_usd,
        metered=False,
    )

    def note(clone: Path) -> str:
        if all(known.evaluation != lost.evaluation for known in read_all(clone / DATA)):
            record_spending(clone / DATA, lost)
        return f"record: what {item.entry} could spend in a run that was lost"

    commit_to_remote(results_branch(desk.settings, desk.runner), note)


def _without_strays(desk: _Desk, there: Queue, troubles: list[HostError]) -> Queue:
    """Tell and drop those that wait for a board that the settings no longer have: no run would take them."""
    known = {board.name for board in desk.settings.boards}
    for item in there:
        if item.board not in known and not item.is_running:
            try:
                there = desk.drop(item, f"There is no board {code_span(item.board)} any more.")
            except HostError as error:
                _warn(item, error)
                troubles.append(error)
    return there


def _start_one(desk: _Desk, there: Queue, board: BoardSettings, out: Path, troubles: list[HostError]) -> bool:
    """Start who is next for a board, if one may; those who cannot are told and dropped on the way."""
    skipped: list[QueueItem] = []
    while item := queue.next_up(tuple(one for one in there if one not in skipped), board.name, board.at_once):
        may = _allowance(desk, item)
        begun = queue.begun(
            item, run=desk.runner.run_id, max_usd=may, now=desk.now, attempt=desk.runner.attempt
        )
        try:
            why = board.closed_because or banned_because(item.author)
            why = why or _moved(desk, item) or _unaffordable(item, may, desk)
            if why:
                there = desk.drop(item, why)
                continue
            there = desk.put(begun, item, "start")
            if begun in there:
                _start(desk, begun, out)
                return True
        except HostError as error:
            _warn(item, error)
            troubles.append(error)
            skipped.append(item)
            there = desk.put(item, begun, "put back")
    return False


def _warn(item: QueueItem, error: HostError | GitError) -> None:
    what = f"{item.entry} for {item.board}, pull request {item.pull}"
    sys.stdout.write(annotation("warning", f"{what}: left for a later run: {error}") + "\n")


def _moved(desk: _Desk, item: QueueItem) -> str:
    if not item.pull:
        now = desk.voice.host.trees(desk.settings.base_ref).entries.get(item.path.removeprefix(FOLDER))
        return "" if now is not None and now.sha == item.blob_sha else "The entry was changed since."
    pull = desk.voice.host.pull(item.pull)
    if pull.state != "open" and not pull.is_merged:
        return "The pull request was closed while it waited."
    if pull.head_sha != item.head_sha:
        moved = code_span(pull.head_sha[:12])
        return f"The pull request has moved to {moved} while it waited. Look at what was pushed, then label."
    return ""


def _reserved(there: Queue) -> tuple[Reserved, ...]:
    """Give what evaluations at work may spend, but for those whose spending the ledger has already."""
    told = {item.evaluation for item in read_all(DATA)}
    at_work = (item for item in there if item.is_running)
    return tuple(
        Reserved(entry=item.entry, usd=item.max_usd)
        for item in at_work
        if (item.run, item.attempt, item.entry) not in told
    )


def _allowance(desk: _Desk, item: QueueItem) -> float:
    return allowance(desk.settings.money, item.entry, read_all(DATA), desk.reserved, desk.now.date())


def _unaffordable(item: QueueItem, may: float, desk: _Desk) -> str:
    if item.usd is None or may >= max(LEAST_USD, min(item.usd, desk.settings.money.usd_per_evaluation)):
        return ""
    caps = desk.settings.money
    return (
        f"It is thought to cost ${item.usd:.2f}, and ${max(may, 0.0):.2f} are left within the caps: "
        f"${caps.usd_per_evaluation:.2f} for an evaluation, ${caps.usd_per_entry_and_week:.2f} for an entry "
        f"in seven days, ${caps.usd_per_month:.2f} for all in a month. None starts with less than "
        f"${LEAST_USD:.2f}. Label again when there is money."
    )


def _start(desk: _Desk, item: QueueItem, out: Path) -> None:
    job = EvaluationJob(
        pull=item.pull,
        head_sha=item.head_sha,
        board=item.board,
        entry=item.entry,
        submission_sha256=item.submission_sha256,
        max_usd=item.max_usd,
        fresh=item.is_fresh,
        attempt=desk.runner.attempt,
    )
    raw = desk.voice.host.blob(item.blob_sha)
    desk.voice.report(item.pull, running_report(item, desk.runner), with_status=False)
    write_job(out, job, raw, data=DATA)
    handed_on = {name: getattr(item, name) for name in ("pull", "head_sha", "entry", "board", "verb")}
    write_outputs(
        desk.runner, {**handed_on, "max_usd": f"{item.max_usd:.2f}", "attempt": desk.runner.attempt}
    )
