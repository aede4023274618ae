"""The verb `publish`: takes the evaluation's work file as hostile input, records, commits, says the outcome.

It trusts the event's pull request and commit alone: the submission is read again from the host, the result is
checked by `record`, every score is computed anew. Nothing of the artifact is run, imported or printed raw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kernelbench.engines.epoch import price_of
from kernelbench.problems import ProblemSet
from kernelbench.rows import ResultFile, Row, Status
from kernelbench.version import evaluator_sha256

from leaderboard import store
from leaderboard.boards import read_submissions
from leaderboard.comment import Bill, Outcome, Report
from leaderboard.evaluate import load_problems
from leaderboard.github.changes import FOLDER
from leaderboard.github.event import Runner, commit_sha, pull_number
from leaderboard.github.gitrepo import GitError, Remote, commit_to_remote
from leaderboard.github.host import Host, Pull
from leaderboard.github.inspect import Inspection, inspect_pull, links_to_kernels
from leaderboard.github.say import Voice, log
from leaderboard.github.settings import EvaluationSettings
from leaderboard.github.would_be import would_be_standing
from leaderboard.inert import code_span
from leaderboard.merged import merged_results
from leaderboard.record import Case, Recorded, RefusedError, read_work_file, record
from leaderboard.submission import InvalidSubmissionError, Submission

SUBMISSIONS = Path("submissions")


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What is to be published: which pull request, at which commit, where the evaluation left its result."""

    pull: int
    head_sha: str
    folder: Path

    @classmethod
    def of(cls, environment: Mapping[str, str], folder: Path) -> Publication:
        """Read what the gate handed on; raise EventError where it is malformed."""
        return cls(
            pull=pull_number(environment.get("PULL")),
            head_sha=commit_sha(environment.get("HEAD_SHA")),
            folder=folder,
        )


@dataclass(frozen=True, kw_only=True)
class Published:
    """What recording gave: the result, the one before it, and what of others is on the boards now."""

    recorded: Recorded
    before: ResultFile | None
    others: tuple[ResultFile, ...]
    merged: Mapping[str, Submission]

    @property
    def fresh(self) -> tuple[Row, ...]:
        """The rows that were not recorded before."""
        known = {row.key: row for row in self.before.rows} if self.before is not None else {}
        return tuple(row for row in self.recorded.result.rows if known.get(row.key) != row)

    @property
    def earlier(self) -> tuple[Row, ...]:
        """The rows of the run before, where this run changed something."""
        return self.before.rows if self.before is not None and self.recorded.changed else ()


class UnusableError(Exception):
    """There is nothing to publish; the message is Markdown of our own, with untrusted parts in code spans."""


def run_publish(host: Host, runner: Runner, settings: EvaluationSettings, asked: Publication) -> None:
    """Record, commit and say the outcome, which may be that there is nothing to publish.

    Raises GitError, once that was said, where the result cannot be pushed.
    """
    voice = Voice(host=host, runner=runner)
    pull = host.pull(asked.pull)
    inspection = inspect_pull(host, pull, asked.head_sha)
    try:
        submission = _submission(inspection)
        _check_current(host, pull, inspection)
        case = _case(asked.folder, submission, settings)
        published = _commit(case, runner, settings, asked)
    except UnusableError as error:
        voice.report(asked.pull, _failed(inspection, str(error), runner))
        return
    except GitError as error:
        branch, said = code_span(settings.results_ref), code_span(str(error), 600)
        remark = (
            f"The result could not be pushed to {branch}: {said}. Once that is mended, re-running "
            "the job *Publish* publishes it: nothing is judged again."
        )
        voice.report(asked.pull, _failed(inspection, remark, runner))
        raise
    report = _report(inspection, submission, published, runner=runner, settings=settings)
    voice.report(asked.pull, report)


def _submission(inspection: Inspection) -> Submission:
    if inspection.submission is None or inspection.problems:
        raise UnusableError("The entry can no longer be read at the commit that was evaluated.")
    return inspection.submission


def _check_current(host: Host, pull: Pull, inspection: Inspection) -> None:
    """Refuse to publish for a pull request whose entry has moved on since the evaluation was asked for."""
    if pull.head_sha == inspection.head_sha:
        return
    name = inspection.path.removeprefix(FOLDER)
    now = host.folder(pull.head_sha, FOLDER.rstrip("/")).get(name)
    if now is None or now.sha != inspection.blob_sha:
        asked, moved = code_span(inspection.head_sha[:12]), code_span(pull.head_sha[:12])
        raise UnusableError(
            f"The entry was changed by a push after the label (from {asked} to {moved}): nothing was "
            "published. The new version needs a new label."
        )


def _case(folder: Path, submission: Submission, settings: EvaluationSettings) -> Case:
    path = store.result_path(folder, settings.board, submission.entry)
    if not path.is_file() or path.is_symlink():
        raise UnusableError(
            "The evaluation handed no result on. Its log says why; the label starts it again."
        )
    try:
        result = read_work_file(path)
    except (store.StoreError, RefusedError, OSError) as error:
        log(str(error))
        raise UnusableError(f"The evaluation's result was refused: {code_span(str(error), 300)}.") from error
    problems = load_problems(ProblemSet(), submission.kernels, result.sizes)
    return Case(result=result, submission=submission, problems=problems)


def _commit(case: Case, runner: Runner, settings: EvaluationSettings, asked: Publication) -> Published:
    """Record into a fresh clone of the results' branch and push, anew when another result got in first."""
    done: list[Published] = []

    def change(clone: Path) -> str:
        path = store.recorded_path(clone / "data", settings.board, case.submission.entry)
        before = store.read_result(path) if path.is_file() else None
        _check_rows(case, before, settings)
        try:
            recorded = record(case, asked.folder, data=clone / "data")
        except (RefusedError, store.StoreError) as error:
            log(str(error))
            raise UnusableError(
                f"The evaluation's result was refused: {code_span(str(error), 300)}."
            ) from error
        done.append(_published(clone / "data", recorded, before))
        return _message(recorded.result, asked)

    remote = Remote(
        url=runner.clone_url, ref=settings.results_ref, start_ref=settings.base_ref, token=runner.token
    )
    pushed = commit_to_remote(remote, change)
    log("the result is pushed" if pushed else "the result stands already: nothing to push")
    return done[-1]


def _published(data: Path, recorded: Recorded, before: ResultFile | None) -> Published:
    """What others have on the boards; a file of theirs that cannot be read keeps no result from its place."""
    merged: dict[str, Submission] = {}
    others: list[ResultFile] = []
    for path in sorted((data / "results").glob("*/*.json")):
        if path.stem == recorded.result.entry:
            continue
        try:
            result = store.read_result(path)
            merged |= read_submissions(SUBMISSIONS, [result.entry])
            others += merged_results(data, [result], merged)
        except (store.StoreError, InvalidSubmissionError) as error:
            log(f"left out of the standings: {error}")
    return Published(recorded=recorded, before=before, others=tuple(others), merged=merged)


def _check_rows(case: Case, before: ResultFile | None, settings: EvaluationSettings) -> None:
    """Require this evaluator's own rows: others only where the very same row is recorded already."""
    if case.result.board != settings.board:
        raise UnusableError(f"The result is for another board than {code_span(settings.board)}: refused.")
    ours = evaluator_sha256()
    known = {row.key: row for row in before.rows} if before else {}
    strange = [r for r in case.result.rows if r.evaluator_sha256 != ours and known.get(r.key) != r]
    if strange:
        raise UnusableError(f"{len(strange)} rows were judged by another evaluator than this one: refused.")


def _message(result: ResultFile, asked: Publication) -> str:
    correct = sum(row.is_correct for row in result.rows)
    subject = f"record: {result.entry} {correct} of {len(result.rows)} correct on {result.board}"
    body = f"Revision {result.revision}: {result.reason}.\nPull request {asked.pull} at {asked.head_sha}."
    return f"{subject}\n\n{body}\n"


def _report(
    inspection: Inspection,
    submission: Submission,
    published: Published,
    *,
    runner: Runner,
    settings: EvaluationSettings,
) -> Report:
    result = published.recorded.result
    waiting = _waiting(submission, result)
    standing, entrants = would_be_standing(
        (result, *published.others), settings.board, submission, published.merged
    )
    outcome = Outcome(
        standing=standing,
        entrants=entrants,
        board=settings.board,
        rows=result.rows,
        earlier=published.earlier,
        bill=_bill(published.fresh, settings) if published.fresh else None,
    )
    remark = (
        f"{waiting} kernels have no verdict by this evaluator yet: the label starts the rest, "
        "what is judged stays."
    )
    return Report(
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


def _waiting(submission: Submission, result: ResultFile) -> int:
    ours = evaluator_sha256()
    judged = {
        row.key
        for row in result.rows
        if row.status is not Status.INFRA_ERROR and row.evaluator_sha256 == ours
    }
    return len(submission.kernels.keys() - judged)


def _bill(rows: tuple[Row, ...], settings: EvaluationSettings) -> Bill:
    gpu_seconds = sum(row.gpu_seconds for row in rows)
    bill = Bill(gpu_seconds=gpu_seconds, cpu_seconds=sum(row.cpu_seconds for row in rows))
    price = price_of(settings.engine, settings.gpu)
    if price is None:
        return bill
    note = (
        f"${price.usd_per_second}/s as of {price.as_of}, the kernels' own seconds; the invoice adds start-up"
    )
    return replace(bill, usd=gpu_seconds * price.usd_per_second, price_note=note)


def _failed(inspection: Inspection, remark: str, runner: Runner) -> Report:
    submission = inspection.submission
    return Report(
        state="failed",
        head_sha=inspection.head_sha,
        entry=submission.entry if submission else "",
        display_name=submission.display_name if submission else "",
        remark=remark,
        run_url=runner.run_url,
    )
