"""Brings recorded results into a checkout of main, from the tip of their branch."""

from __future__ import annotations

from pathlib import Path

from leaderboard.files import reviews
from leaderboard.github.event import WorkflowRunner
from leaderboard.github.gitrepo import RemoteBranch, fetch_folders
from leaderboard.github.say import log
from leaderboard.github.settings import RepositorySettings

DATA, SUBMISSIONS = Path("data"), Path("submissions")


def results_branch(settings: RepositorySettings, runner: WorkflowRunner) -> RemoteBranch:
    """Name the branch that results are on; one that is not there yet starts from the base branch."""
    return RemoteBranch(
        url=runner.clone_url, ref=settings.results_ref, start_ref=settings.base_ref, token=runner.token
    )


def bring_results(settings: RepositorySettings, runner: WorkflowRunner) -> None:
    """Put the results of the settings' boards into the checkout this runs in; raise GitError.

    A job that waited has the checkout of its event, in which what was recorded since is missing. All else on
    a branch of results is as old as the branch: boards measured elsewhere and notices stand on main.
    """
    kinds = ("results", "history")
    folders = [(DATA / kind / board.name).as_posix() for kind in kinds for board in settings.boards]
    folders += [(DATA / kind).as_posix() for kind in ("spending", reviews.FOLDER)]
    fetched = fetch_folders(results_branch(settings, runner), folders, Path())
    log(f"results of {settings.results_ref}: {', '.join(fetched) or 'none yet'}")
