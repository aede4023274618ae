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

if TYPE_CHECKING:
    from leaderboard.github.event import Runner
    from leaderboard.github.host import Host
    from leaderboard.github.settings import EvaluationSettings

    Verb = Callable[[Host, Runner, EvaluationSettings], bool | None]

ci = typer.Typer(no_args_is_help=True, help="The verbs of the workflows; they run on the host's runners.")

JobOption = Annotated[Path, typer.Option("--job", help="The folder that the gate wrote.")]
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
def gate(out: OutOption) -> None:
    """Judge a request for an evaluation and write its job, or refuse (evaluate.yml)."""
    from leaderboard.github.gate import run_gate

    _run(lambda host, runner, settings: run_gate(host, runner, settings, out))


@ci.command()
def unlabel() -> None:
    """Take the label that started this off again (evaluate.yml)."""
    from leaderboard.github.gate import run_unlabel

    _run(run_unlabel)


@ci.command()
def evaluate(
    job: JobOption,
    out: OutOption,
    level: Annotated[list[int] | None, typer.Option(help="Only this level; may be repeated.")] = None,
) -> None:
    """Judge a job's kernels on the engine of the settings (evaluate.yml). Needs no token of the host."""
    from leaderboard.evaluate import EvaluationError
    from leaderboard.github.evaluation import run_evaluation
    from leaderboard.github.settings import SettingsError, read_settings
    from leaderboard.store import StoreError
    from leaderboard.submission import InvalidSubmissionError

    try:
        fine = run_evaluation(read_settings(), job, out, levels=frozenset(level or ()))
    except (EvaluationError, StoreError, SettingsError, InvalidSubmissionError, OSError) as error:
        raise _fault(error) from error
    raise typer.Exit(0 if fine else 1)


@ci.command()
def progress(job: JobOption) -> None:
    """Keep the comment up to date while the evaluation runs (evaluate.yml)."""
    from leaderboard.github.job import read_job
    from leaderboard.github.progress import follow
    from leaderboard.github.say import Voice

    def verb(host: Host, runner: Runner, settings: EvaluationSettings) -> None:
        follow(Voice(host=host, runner=runner), settings, *read_job(job))

    _run(verb)


@ci.command()
def publish(result: Annotated[Path, typer.Option(help="The folder that the evaluation left.")]) -> None:
    """Check, record, commit and say what an evaluation gave (evaluate.yml)."""
    from leaderboard.github.publish import Publication, run_publish

    def verb(host: Host, runner: Runner, settings: EvaluationSettings) -> None:
        run_publish(host, runner, settings, Publication.of(os.environ, result))

    _run(verb)


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


def _run(verb: Verb) -> None:
    """Connect, carry the verb out, and end with its exit status: 1 where it says False."""
    from leaderboard.github.event import EventError, read_runner
    from leaderboard.github.gitrepo import GitError
    from leaderboard.github.host import HostError, connect
    from leaderboard.github.settings import SettingsError, read_settings
    from leaderboard.store import StoreError

    try:
        settings, runner = read_settings(), read_runner()
        host = connect(runner.api_url, runner.repository, runner.token, patience=settings.host)
        fine = verb(host, runner, settings)
    except (SettingsError, EventError, HostError, GitError, StoreError) as error:
        raise _fault(error) from error
    raise typer.Exit(1 if fine is False else 0)


def _fault(error: Exception) -> typer.Exit:
    from leaderboard.inert import annotation, log_text

    typer.echo(annotation("error", str(error)))
    typer.echo(log_text(f"{type(error).__name__}: {error}"))
    return typer.Exit(2)
