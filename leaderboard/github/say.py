"""Says where a pull request stands: sticky comment, commit status, label and log, all as one."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass

from leaderboard.github.event import WorkflowRunner, write_summary
from leaderboard.github.host import Host, HostError
from leaderboard.github.queue import QueueItem, QueuePosition, stamp
from leaderboard.show.comment import (
    LABELS,
    MARKER,
    PullReport,
    State,
    add_notice,
    render_comment,
    status_line,
)
from leaderboard.texts.inert import code_span, log_text
from leaderboard.texts.lists import counted


@dataclass(frozen=True, kw_only=True)
class Voice:
    """Where to say things: the host, and the run that says them."""

    host: Host
    runner: WorkflowRunner

    def report(self, pull: int, report: PullReport, *, with_status: bool = True) -> None:
        """Put status, comment and label where the report says the pull request stands."""
        log(f"pull request {pull}: {report.state}")
        for problem in report.problems:
            log(problem)
        body = render_comment(report)
        write_summary(self.runner, body)
        if not pull:
            return  # nobody's pull request: a maintainer asked, and reads the run
        if with_status:
            state, description = status_line(report)
            self.host.put_status(
                report.head_sha, state, description=description, url=report.run_url or self.runner.run_url
            )
        self.host.put_comment(pull, body)
        self._label(pull, LABELS.get(report.state))

    def notice(self, pull: int, text: str) -> None:
        """Add a notice to the comment and leave everything else as it stands."""
        log(text)
        write_summary(self.runner, text)
        self.host.put_comment(pull, add_notice(self.host.comment(pull) or MARKER, text))

    def trouble(self, pull: int, text: str) -> None:
        """Say that something of ours failed, if the host lets us; never raise HostError."""
        with suppress(HostError):
            self.notice(pull, f"{code_span(text, 600)} Label again.")

    def _label(self, pull: int, name: str | None) -> None:
        """Labels are a convenience: where they cannot be set, the evaluation goes on."""
        try:
            self.host.put_state_label(pull, name)
        except HostError as error:
            log(f"the label {name!r} could not be set: {error}")


def queued_report(item: QueueItem, place: QueuePosition, runner: WorkflowRunner) -> PullReport:
    """Say that an evaluation waits: its place, and when it may be done."""
    cost = f", and cost about ${item.usd:.2f}" if item.usd is not None else ""
    remark = (
        f"{counted(item.kernels, 'kernel')} for {code_span(item.board)}: number {place.number} of "
        f"{place.waiting} that wait. "
        f"It may be done by {stamp(place.done_at)[:16].replace('T', ' ')} UTC{cost}."
    )
    return _of(item, runner, "queued", remark)


def running_report(item: QueueItem, runner: WorkflowRunner) -> PullReport:
    """Say that an evaluation runs, and what it may cost."""
    remark = f"{counted(item.kernels, 'kernel')} on {code_span(item.board)}, for at most ${item.max_usd:.2f}."
    return _of(item, runner, "running", remark)


def unfinished_report(item: QueueItem, why: str, runner: WorkflowRunner) -> PullReport:
    """Say why an evaluation ends without a result of its own. `why` is our own Markdown."""
    return _of(item, runner, "failed", f"{why} The label starts it again; what is judged stays.")


def _of(item: QueueItem, runner: WorkflowRunner, state: State, remark: str) -> PullReport:
    return PullReport(
        state=state,
        head_sha=item.head_sha,
        entry=item.entry,
        display_name=item.display_name,
        kernels=item.kernels,
        remark=remark,
        run_url=runner.run_url,
    )


def log(text: str) -> None:
    """Write text to the log so that no line of it can be a command to the runner."""
    sys.stdout.write(log_text(text) + "\n")
    sys.stdout.flush()
