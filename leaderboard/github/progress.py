"""The verb `progress`: keeps the comment up to date while the evaluation runs, by the host's own account.

It holds no secret and reads nothing that the evaluation writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from leaderboard.comment import Report, Step
from leaderboard.github.event import Runner
from leaderboard.github.job import EvaluationJob
from leaderboard.github.say import Voice
from leaderboard.github.settings import EvaluationSettings
from leaderboard.submission import Submission

JOB_NAME = "Evaluate"
STEP_PREFIX = "Judge "
UNFINISHED = frozenset({"queued", "in_progress", "waiting", "pending", "requested"})


def follow(
    voice: Voice,
    settings: EvaluationSettings,
    job: EvaluationJob,
    submission: Submission,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look at the evaluation's steps until its job is over; edit the comment where they changed."""
    shown: tuple[Step, ...] = ()
    while True:
        status, steps = voice.host.steps(voice.runner.run_id, JOB_NAME, STEP_PREFIX)
        if steps != shown:
            voice.report(job.pull, _report(job, submission, steps, voice.runner), with_status=False)
            shown = steps
        if status not in UNFINISHED:
            return
        sleep(settings.host.progress_every_s)


def _report(job: EvaluationJob, submission: Submission, steps: tuple[Step, ...], runner: Runner) -> Report:
    return Report(
        state="running",
        head_sha=job.head_sha,
        entry=job.entry,
        display_name=submission.display_name,
        kernels=len(submission.kernels),
        steps=steps,
        run_url=runner.run_url,
    )
