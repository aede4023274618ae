"""The verb `gate`: may this evaluation start? Reads everything at the commit that was asked for, or refuses.

A refusal says why in the comment, writes no job and changes nothing else.
"""

from __future__ import annotations

from pathlib import Path

from leaderboard.comment import Report
from leaderboard.github.changes import FOLDER, WRITERS
from leaderboard.github.event import Runner, StartRequest, start_request, write_outputs
from leaderboard.github.host import Host, Pull
from leaderboard.github.inspect import Inspection, inspect_pull
from leaderboard.github.job import EvaluationJob, write_job
from leaderboard.github.results import DATA, bring_results
from leaderboard.github.say import Voice, log
from leaderboard.github.settings import EvaluationSettings
from leaderboard.inert import code_span


class RefusedError(Exception):
    """The evaluation may not start. The message is our own Markdown, untrusted parts in code spans."""


def run_gate(host: Host, runner: Runner, settings: EvaluationSettings, out: Path) -> bool:
    """Write the job and say that it runs, or say why not; give whether it may run."""
    request = start_request(runner)
    voice = Voice(host=host, runner=runner)
    try:
        pull = host.pull(request.pull)
        _check_senders(host, request)
        _check_pull(host, request, pull, settings)
        inspection = inspect_pull(host, pull, request.head_sha)
        _check_kind(inspection)
    except RefusedError as refusal:
        voice.notice(request.pull, str(refusal))
        return False
    if not inspection.is_ready:
        voice.report(pull.number, _invalid(inspection, runner))
        return False
    _start(voice, inspection, settings, out)
    return True


def run_unlabel(host: Host, runner: Runner, settings: EvaluationSettings) -> None:
    """Take the one-shot label off, whatever came of it."""
    request = start_request(runner)
    if request.label == settings.label:
        host.remove_label(request.pull, settings.label)
        log(f"label {settings.label} taken off pull request {request.pull}")


def _check_senders(host: Host, request: StartRequest) -> None:
    for sender in request.senders:
        role = host.role(sender)
        if role not in WRITERS:
            who, what = code_span(sender), code_span(role)
            raise RefusedError(
                f"An evaluation starts only for people with write access. {who} has the role {what}, "
                "so this did nothing. A maintainer will look at the pull request."
            )


def _check_pull(host: Host, request: StartRequest, pull: Pull, settings: EvaluationSettings) -> None:
    by_hand = request.label is None
    if not by_hand and request.label != settings.label:
        raise RefusedError(f"The label that starts an evaluation is {code_span(settings.label)}.")
    if pull.base_ref != settings.base_ref:
        raise RefusedError(f"Only pull requests against {code_span(settings.base_ref)} are evaluated.")
    if pull.state != "open" and not (by_hand and pull.is_merged):
        raise RefusedError("The pull request is closed, so nothing was started.")
    if pull.head_sha != request.head_sha:
        asked, now = code_span(request.head_sha[:12]), code_span(pull.head_sha[:12])
        raise RefusedError(
            f"The evaluation was asked for commit {asked}, and the pull request has moved to {now} since: "
            "nothing was started. Look at what was pushed, then ask again."
        )
    if pull.is_merged:
        _check_still_merged(host, pull)


def _check_still_merged(host: Host, pull: Pull) -> None:
    there = host.folder(pull.head_sha, FOLDER.rstrip("/"))
    on_base = host.folder(pull.base_ref, FOLDER.rstrip("/"))
    sent = {file.path for file in host.changes(pull.base_sha, pull.head_sha)}
    for name, file in there.items():
        now = on_base.get(name)
        if FOLDER + name in sent and (now is None or now.sha != file.sha):
            raise RefusedError(
                "The merged entry has been changed or withdrawn since, so nothing was started."
            )


def _check_kind(inspection: Inspection) -> None:
    if inspection.change.kind == "code":
        raise RefusedError("This pull request sends no entry under `submissions/`, so nothing was started.")
    if inspection.change.kind == "withdrawal":
        raise RefusedError("This pull request withdraws entries, so there is nothing to evaluate.")


def _invalid(inspection: Inspection, runner: Runner) -> Report:
    return Report(
        state="invalid",
        head_sha=inspection.head_sha,
        problems=inspection.problems,
        run_url=runner.run_url,
    )


def _start(voice: Voice, inspection: Inspection, settings: EvaluationSettings, out: Path) -> None:
    submission = inspection.submission
    if submission is None:
        raise ValueError("an inspection that is ready carries a submission")
    job = EvaluationJob(
        pull=inspection.pull.number,
        head_sha=inspection.head_sha,
        entry=submission.entry,
        blob_sha=inspection.blob_sha,
        submission_sha256=submission.sha256,
    )
    bring_results(settings, voice.runner)
    write_job(out, job, inspection.raw, board=settings.board, data=DATA)
    write_outputs(voice.runner, {"pull": job.pull, "head_sha": job.head_sha})
    remark = (
        f"{len(submission.kernels)} kernels on {code_span(settings.board)}; the steps appear here as they go."
    )
    voice.report(
        job.pull,
        Report(
            state="running",
            head_sha=job.head_sha,
            entry=job.entry,
            display_name=submission.display_name,
            kernels=len(submission.kernels),
            remark=remark,
            run_url=voice.runner.run_url,
        ),
    )
