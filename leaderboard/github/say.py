"""Says where a pull request stands: sticky comment, commit status, label and log, all as one."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from leaderboard.comment import LABELS, MARKER, Report, add_notice, render_comment, status_line
from leaderboard.github.event import Runner, write_summary
from leaderboard.github.host import Host, HostError
from leaderboard.inert import log_text


@dataclass(frozen=True, kw_only=True)
class Voice:
    """Where to say things: the host, and the run that says them."""

    host: Host
    runner: Runner

    def report(self, pull: int, report: Report, *, with_status: bool = True) -> None:
        """Put status, comment and label where the report says the pull request stands."""
        log(f"pull request {pull}: {report.state}")
        for problem in report.problems:
            log(problem)
        body = render_comment(report)
        write_summary(self.runner, body)
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

    def _label(self, pull: int, name: str | None) -> None:
        """Labels are a convenience: where they cannot be set, the evaluation goes on."""
        try:
            self.host.put_state_label(pull, name)
        except HostError as error:
            log(f"the label {name!r} could not be set: {error}")


def log(text: str) -> None:
    """Write text to the log so that no line of it can be a command to the runner."""
    sys.stdout.write(log_text(text) + "\n")
    sys.stdout.flush()
