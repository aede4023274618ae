"""`kbl ci …`: the verbs of the workflows, one line a step. Turns errors into exit statuses.

Exit status: 0 done, 1 refused by the check or the gate, or not every kernel judged (the comment says why),
2 our own fault or the host's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.texts.say import say

if TYPE_CHECKING:
    from leaderboard.github.event import WorkflowRunner
    from leaderboard.github.host import Host
    from leaderboard.github.settings import RepositorySettings

    Verb = Callable[[Host, WorkflowRunner, RepositorySettings], bool | None]

ci = typer.Typer(no_args_is_help=True, help="The verbs of the workflows; they run on the host's runners.")

JobOption = Annotated[Path, typer.Option("--job", help="The folder that kbl ci take wrote.")]
OutOption = Annotated[Path, typer.Option("--out", help="The folder to write.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(ci, name="ci")


@ci.command()
def check() -> None:
    """Say what stands against a pull request, without any secret (validate.yml)."""
    from leaderboard.github.check import run_check

    _run(lambda host, runner, _: run_check(host, runner))


@ci.command()
def report() -> None:
    """Write in the comment how the check stands (comment.yml)."""
    from leaderboard.github.check import run_report

    _run(run_report)


@ci.command()
def gate() -> None:
    """Judge a request for an evaluation and queue it, or refuse (evaluate.yml)."""
    from leaderboard.github.gate import run_gate

    _run(run_gate)


@ci.command()
def unlabel() -> None:
    """Take the label that started this off again (evaluate.yml)."""
    from leaderboard.github.gate import run_unlabel

    _run(lambda host, runner, _: run_unlabel(host, runner))


@ci.command()
def take(out: OutOption) -> None:
    """Write the job of whoever is next in the queue, if one may start (evaluate.yml)."""
    from leaderboard.github.take import run_take

    _run(lambda host, runner, settings: run_take(host, runner, settings, out))


@ci.command()
def evaluate(job: JobOption, out: OutOption) -> None:
    """Judge a job's kernels on the engine of its board (evaluate.yml). Needs no token of the host."""
    from leaderboard.files.store import StoreError
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.github.evaluation import run_evaluation
    from leaderboard.github.event import EventError, run_attempt
    from leaderboard.github.settings import SettingsError, read_settings
    from leaderboard.stages.engines import EvaluationError

    try:
        fine = run_evaluation(read_settings(), job, out, attempt=run_attempt())
    except (EvaluationError, EventError, StoreError, SettingsError, InvalidSubmissionError, OSError) as error:
        raise _fault(error) from error
    raise typer.Exit(0 if fine else 1)


@ci.command()
def publish(result: Annotated[Path, typer.Option(help="The folder that the evaluation left.")]) -> None:
    """Check, record, commit and say what an evaluation gave (evaluate.yml)."""
    from leaderboard.github.publish import Publication, run_publish

    def verb(host: Host, runner: WorkflowRunner, settings: RepositorySettings) -> None:
        run_publish(host, runner, settings, Publication.of(os.environ, result))

    _run(verb)


@ci.command("next")
def next_one() -> None:
    """Start a run for whoever waits next, if somebody does (evaluate.yml)."""
    from leaderboard.github.take import run_next

    _run(run_next)


@ci.command()
def board() -> None:
    """Do what a maintainer asked of the whole board (board.yml)."""
    from leaderboard.github.board import Asked, run_board

    _run(lambda host, runner, settings: run_board(host, runner, settings, Asked.of(os.environ)))


@ci.command()
def results() -> None:
    """Bring the results in from their branch, where they have one of their own (pages.yml)."""
    from leaderboard.github.event import EventError, read_runner
    from leaderboard.github.gitrepo import GitError
    from leaderboard.github.results import bring_results
    from leaderboard.github.settings import SettingsError, read_settings

    try:
        bring_results(read_settings(), read_runner())
    except (SettingsError, EventError, GitError) as error:
        raise _fault(error) from error


@ci.command()
def rehearse() -> None:
    """Let a week of a board happen against stand-ins: 50 entries, lost runs, limits. Takes minutes."""
    import subprocess
    import sys

    from leaderboard.resources import CHECKOUT

    tests = CHECKOUT / "tests"
    if not tests.is_dir():
        raise typer.BadParameter(
            "the rehearsal is part of the tests: call it in a checkout of the repository"
        )
    paths = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "KernelBench", tests)))
    command = [sys.executable, "-um", "fakes.rehearsal"]
    raise typer.Exit(subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False).returncode)


def _run(verb: Verb) -> None:
    """Connect, carry the verb out, and end with its exit status: 1 where it says False."""
    from kernel_evaluator.machine.extras import require

    from leaderboard.files.store import StoreError
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.github.event import EventError, read_runner
    from leaderboard.github.gitrepo import GitError
    from leaderboard.github.host import HostError, connect
    from leaderboard.github.settings import SettingsError, read_settings

    faults = (SettingsError, EventError, HostError, GitError, StoreError, InvalidSubmissionError, OSError)
    require("github", "kbl ci")
    try:
        settings, runner = read_settings(), read_runner()
        host = connect(runner.api_url, runner.repository, runner.token, patience=settings.host)
        fine = verb(host, runner, settings)
    except faults as error:
        raise _fault(error) from error
    raise typer.Exit(1 if fine is False else 0)


def _fault(error: Exception) -> typer.Exit:
    from leaderboard.texts.faults import words_for
    from leaderboard.texts.inert import annotation, log_text

    said = words_for(error)
    say(annotation("error", said))
    say(log_text(f"{type(error).__name__}: {said}"))
    return typer.Exit(2)
