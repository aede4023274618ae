"""The queue on its branch: read it, and change it so that nobody else's change is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leaderboard.github import queue
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gitrepo import RemoteBranch, commit_to_remote
from leaderboard.github.queue import Queue
from leaderboard.github.settings import RepositorySettings


def change_queue(
    settings: RepositorySettings, runner: WorkflowRunner, change: Callable[[Queue], Queue], why: str
) -> Queue:
    """Push what `change` makes of the queue as it then is, and give that; raise GitError or StoreError."""
    done: list[Queue] = []

    def in_clone(clone: Path) -> str:
        done.append(change(queue.read(clone)))
        queue.write(clone, done[-1])
        return why

    commit_to_remote(RemoteBranch(url=runner.clone_url, ref=settings.queue_ref, token=runner.token), in_clone)
    return done[-1]
