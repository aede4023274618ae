"""The verbs `check` (no secret, beside the author's code) and `report` (from main, writes the comment).

Both judge the pull request by the same inspection; `report` uses nothing that the first run made.
"""

from __future__ import annotations

import sys

from leaderboard.files.banned import read_bans
from leaderboard.files.ledger import read_all
from leaderboard.files.notices import read_notices
from leaderboard.files.reviews import read_reviews
from leaderboard.files.store import StoreError
from leaderboard.files.struck import read_strikes
from leaderboard.github.event import WorkflowRunner, at, checked_head, commit_sha, pull_number
from leaderboard.github.host import Host
from leaderboard.github.inspect import Inspection, inspect_pull
from leaderboard.github.results import DATA
from leaderboard.github.say import Voice, log
from leaderboard.github.settings import RepositorySettings
from leaderboard.show.comment import PullReport, stage_of
from leaderboard.texts.inert import annotation, code_span

_BEYOND_CHECKING = ("queued", "running", "done", "failed")


def run_check(host: Host, runner: WorkflowRunner) -> bool:
    """Print what stands against the pull request, as annotations; give whether nothing does."""
    if runner.event_name != "pull_request":
        log(f"nothing to compare for the event {runner.event_name}")
        return True
    number = pull_number(at(runner.payload, "pull_request", "number"))
    head_sha = commit_sha(at(runner.payload, "pull_request", "head", "sha"))
    inspection = inspect_pull(host, host.pull(number), head_sha)
    for problem in inspection.problems:
        sys.stdout.write(annotation("error", problem, file=inspection.path) + "\n")
    broken = _broken_lists() if inspection.change.kind == "code" else []  # an entry is not to blame for main
    for problem in broken:
        sys.stdout.write(annotation("error", problem) + "\n")
    log(_in_words(inspection))
    return not (inspection.problems or broken)


def run_report(host: Host, runner: WorkflowRunner, settings: RepositorySettings) -> None:
    """Say in the comment how the check of a head stands, unless an evaluation of that head has begun."""
    checked = checked_head(runner)
    pull = host.pull_of_head(checked.branch, checked.head_sha, settings.base_ref)
    if pull is None:
        log("no open pull request has this head: nothing to say")
        return
    shown, of_head = stage_of(host.comment(pull.number))
    if of_head == checked.head_sha and shown in _BEYOND_CHECKING:
        log(f"an evaluation of this head is {shown} already: nothing to say")
        return
    inspection = inspect_pull(host, pull, checked.head_sha)
    if inspection.change.kind == "code" and not inspection.problems:
        if checked.finished:
            host.put_status(checked.head_sha, "success", description="No entry is sent", url=runner.run_url)
        log("no entry is sent: nothing to say")
        return
    earlier = of_head if shown == "done" else ""
    validating = PullReport(state="validating", head_sha=checked.head_sha)
    report = _report(inspection, settings, earlier) if checked.finished else validating
    Voice(host=host, runner=runner).report(pull.number, report)


def _broken_lists() -> list[str]:
    """Name each list of the checkout that cannot be read: once merged, it would hold others up."""
    broken: list[str] = []
    for read in (read_strikes, read_notices, read_reviews, read_all, lambda _: read_bans()):
        try:
            read(DATA)
        except StoreError as error:
            broken.append(str(error))
    return broken


def _in_words(inspection: Inspection) -> str:
    if inspection.problems:
        return f"{len(inspection.problems)} problems"
    kinds = {
        "code": "no entry is sent",
        "withdrawal": "entries are withdrawn",
        "entry": "one valid entry is sent",
    }
    return kinds[inspection.change.kind]


def _report(inspection: Inspection, settings: RepositorySettings, earlier: str) -> PullReport:
    if inspection.problems:
        remark = "Mend what follows and push again; `kbl validate` lists the same on your machine."
        return PullReport(
            state="invalid", head_sha=inspection.head_sha, problems=inspection.problems, remark=remark
        )
    submission = inspection.submission
    if submission is None:
        return PullReport(
            state="nothing",
            head_sha=inspection.head_sha,
            remark="This withdraws entries; a maintainer decides.",
        )
    labels = " or ".join(code_span(board.label) for board in settings.boards)
    remark = f"A maintainer starts the evaluation with the label {labels}."
    if earlier:
        remark += f" The evaluation of {code_span(earlier[:12])} does not count for this commit."
    return PullReport(
        state="waiting",
        head_sha=inspection.head_sha,
        entry=submission.entry,
        display_name=submission.display_name,
        kernels=len(submission.kernels),
        remark=remark,
    )
