"""`kbl record`: checks work files and puts them under `data/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from leaderboard.record import Recorded


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("record")(record_command)


def record_command(
    work_files: Annotated[list[Path], typer.Argument(help="Files that kbl evaluate wrote.")],
    *,
    data: Annotated[Path, typer.Option(help="Folder of the recorded results.")] = Path("data"),
    submissions: Annotated[Path, typer.Option(help="Folder of the submissions.")] = Path("submissions"),
    submission: Annotated[
        Path | None, typer.Option(help="The submission's file, where it is not in --submissions.")
    ] = None,
    problems: Annotated[Path | None, typer.Option(help="Folder with level1/, level2/, …")] = None,
    reason: Annotated[str, typer.Option(help="Why there is a new revision.")] = "",
) -> None:
    """Check work files against their submissions and make them the current results.

    Exit status: 0 all are recorded or were already, 1 one was refused.
    """
    from leaderboard.record import RefusedError
    from leaderboard.store import StoreError
    from leaderboard.submission import InvalidSubmissionError

    refused = False
    for path in work_files:
        try:
            recorded = _record_one(path, submission, submissions, data=data, problems=problems, reason=reason)
        except (RefusedError, StoreError, InvalidSubmissionError, OSError) as error:
            typer.echo(f"error: {error}", err=True)
            refused = True
        else:
            typer.echo(_describe(recorded))
    raise typer.Exit(1 if refused else 0)


def _record_one(
    path: Path, submission: Path | None, submissions: Path, *, data: Path, problems: Path | None, reason: str
) -> Recorded:
    from kernelbench.problems import DEFAULT_ROOT, ProblemSet

    from leaderboard.evaluate import load_problems
    from leaderboard.record import Case, read_work_file, record
    from leaderboard.submission import load

    result = read_work_file(path)
    loaded = load(submission or submissions / f"{result.entry}.json")
    known = load_problems(ProblemSet(problems or DEFAULT_ROOT), loaded.kernels, result.sizes)
    case = Case(result=result, submission=loaded, problems=known)
    return record(case, path, data=data, reason=reason)


def _describe(recorded: Recorded) -> str:
    result = recorded.result
    what = "recorded" if recorded.changed else "unchanged"
    return f"{what}: {recorded.path} revision {result.revision}, {len(result.rows)} rows ({result.reason})"
