"""Queues merged entries without a pull request: what is due, an appeal, a second look."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from leaderboard.github import queue
from leaderboard.github.changes import FOLDER
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.host import Host, blob_sha
from leaderboard.github.queue_branch import change_queue
from leaderboard.github.say import log
from leaderboard.github.settings import BoardSettings, RepositorySettings
from leaderboard.stages.upkeep import Due


def queue_merged(
    host: Host,
    runner: WorkflowRunner,
    settings: RepositorySettings,
    board: BoardSettings,
    *,
    listed: Sequence[Due],
    verb: str,
    now: datetime,
) -> None:
    """Put merged entries into the queue, in this order, as they stand on the base branch; start a run.

    The checkout may be older than the branch: what was changed or withdrawn since is left out.
    """
    commit = host.tip(settings.base_ref)
    entries = host.trees(commit).entries
    for one in listed:
        submission = one.submission
        path = f"{FOLDER}{submission.entry}.json"
        file = entries.get(path.removeprefix(FOLDER))
        if file is None or file.sha != blob_sha(Path(path).read_bytes()):
            log(f"left out: {submission.entry} was changed or withdrawn since this run was asked for")
            continue
        item = queue.QueueItem(
            pull=0,
            head_sha=commit,
            board=board.name,
            entry=submission.entry,
            path=path,
            blob_sha=file.sha,
            submission_sha256=submission.sha256,
            display_name=submission.display_name,
            kernels=len(one.kernels),
            asked_by=runner.actor,
            author=0,
            asked_at=queue.stamp(now),
            seconds=round(one.cost.seconds, 1),
            usd=one.cost.usd,
            verb=verb,
        )
        change_queue(settings, runner, partial(queue.with_item, item=item), f"queue: {item.entry}")
        log(f"queued: {item.entry}, {item.kernels} kernels, about ${item.usd or 0.0:.2f}")
    if listed:
        host.work_off()
