"""The verb `take`: the next evaluation of the queue becomes a job, if one may start.

It first looks after those that should have ended. Whoever leaves the queue without a result is told why.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from leaderboard.files.ledger import read_all
from leaderboard.files.store import StoreError
from leaderboard.github import queue
from leaderboard.github.changes import FOLDER
from leaderboard.github.event import Runner, write_outputs
from leaderboard.github.gitrepo import GitError
from leaderboard.github.host import Host, HostError
from leaderboard.github.job import EvaluationJob, write_job
from leaderboard.github.queue import Item, Queue
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.results import DATA, bring_results
from leaderboard.github.say import Voice, log, running_report, unfinished_report
from leaderboard.github.settings import RepositorySettings
from leaderboard.stages.money import Reserved, allowance
from leaderboard.texts.inert import code_span

LEAST_USD = 1.0
"""Dollars with which an evaluation is worth starting, whatever it is thought to cost."""


@dataclass(frozen=True, kw_only=True)
class _Desk:
    """What this run works with."""

    voice: Voice
    settings: RepositorySettings
    now: datetime

    @property
    def runner(self) -> Runner:
        return self.voice.runner

    def drop(self, item: Item, why: str) -> Queue:
        """Tell a pull request why its evaluation ends here, then take it out of the queue."""
        self.voice.report(item.pull, unfinished_report(item, why, self.runner))
        return change_queue(
            self.settings, self.runner, lambda now: queue.without(now, item), f"queue: drop {item.entry}"
        )


def run_take(
    host: Host, runner: Runner, settings: RepositorySettings, out: Path, now: datetime | None = None
) -> None:
    """Write the job of the item that may start now, with what `publish` is to know as outputs.

    Nothing is written where nobody may start. Raises HostError, GitError or StoreError; the item then waits
    again, in its old place.
    """
    desk = _Desk(voice=Voice(host=host, runner=runner), settings=settings, now=now or datetime.now(UTC))
    there = change_queue(settings, runner, lambda as_it_is: as_it_is, "queue: begin")
    for item in queue.overdue(there, desk.now):
        if host.is_over(item.run):
            there = desk.drop(item, "Its run ended without a word; what it recorded stays.")
    chosen = _chosen(desk, there)
    if chosen is None:
        log("nobody may start now")
        return
    try:
        _start(desk, chosen, out)
    except (HostError, GitError, StoreError):
        with suppress(GitError, StoreError):
            change_queue(settings, runner, lambda found: queue.put_back(found, chosen), "queue: put back")
        raise
    run_next(host, runner, settings)


def run_next(host: Host, runner: Runner, settings: RepositorySettings) -> None:
    """Start another run where somebody may start: each run does so, and so the queue is worked off."""
    there = change_queue(settings, runner, lambda as_it_is: as_it_is, "queue: begin")
    if any(queue.next_up(there, board.name, board.at_once) for board in settings.boards):
        host.work_off()


def _chosen(desk: _Desk, there: Queue) -> Item | None:
    """Choose who starts and note it in the queue; those who cannot are told and dropped on the way."""
    bring_results(desk.settings, desk.runner)
    for board in desk.settings.boards:
        while item := queue.next_up(there, board.name, board.at_once):
            may = _allowance(desk, there, item)
            why = board.closed_because or _moved(desk, item) or _unaffordable(item, may, desk)
            if why:
                there = desk.drop(item, why)
                continue
            begun: list[Item] = []

            def begin(found: Queue, item: Item = item, begun: list[Item] = begun, may: float = may) -> Queue:
                changed = queue.started(found, item, run=desk.runner.run_id, max_usd=may, now=desk.now)
                begun[:] = [one for one in changed if one.run == desk.runner.run_id]
                return changed

            there = change_queue(desk.settings, desk.runner, begin, f"queue: start {item.entry}")
            if begun:
                return begun[0]
    return None


def _moved(desk: _Desk, item: Item) -> str:
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


def _allowance(desk: _Desk, there: Queue, item: Item) -> float:
    reserved = [Reserved(entry=other.entry, usd=other.max_usd) for other in there if other.is_running]
    caps = desk.settings.money
    return allowance(caps, item.entry, read_all(DATA), reserved, desk.now.date())


def _unaffordable(item: Item, may: float, desk: _Desk) -> str:
    if item.usd is None or may >= max(LEAST_USD, min(item.usd, desk.settings.money.usd_per_evaluation)):
        return ""
    caps = desk.settings.money
    return (
        f"It is thought to cost ${item.usd:.2f}, and ${max(may, 0.0):.2f} are left within the caps: "
        f"${caps.usd_per_entry_and_week:.0f} for an entry in seven days, ${caps.usd_per_month:.0f} for all "
        "in a month. Label again when there is money."
    )


def _start(desk: _Desk, item: Item, out: Path) -> None:
    job = EvaluationJob(
        pull=item.pull,
        head_sha=item.head_sha,
        board=item.board,
        entry=item.entry,
        submission_sha256=item.submission_sha256,
        max_usd=item.max_usd,
        fresh=item.is_fresh,
    )
    write_job(out, job, desk.voice.host.blob(item.blob_sha), data=DATA)
    desk.voice.report(item.pull, running_report(item, desk.runner), with_status=False)
    handed_on = {name: getattr(item, name) for name in ("pull", "head_sha", "entry", "board", "verb")}
    write_outputs(desk.runner, {**handed_on, "max_usd": f"{item.max_usd:.2f}"})
