"""`kbl record`: checks work files and puts them under `data/`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.options import Problems, problem_set_in, submission_of
from leaderboard.texts.faults import words_for
from leaderboard.texts.lists import counted
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.records.rows import ResultFile

    from leaderboard.stages.record import Recorded


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
    problems: Problems = None,
    baselines: Annotated[Path, typer.Option(help="What the reference takes on each GPU.")] = Path(
        "baselines"
    ),
    evaluator: Annotated[
        list[str] | None,
        typer.Option(help="Take rows of the evaluator with this digest too; may be repeated."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why there is a new revision.")] = "",
) -> None:
    """Check work files against their submissions and make them the current results.

    Several files of one entry and board are the parts of one evaluation, and make one revision.

    Exit status: 0 all are recorded or were already, 1 one was refused, 2 one cannot be read.
    """
    from leaderboard.files.store import StoreError
    from leaderboard.files.submission import load
    from leaderboard.stages.parts import joined
    from leaderboard.stages.record import RefusedError, case_of, read_work_file, record

    status = 0
    parts: dict[Path, ResultFile] = {}
    for path in work_files:
        try:
            parts[path] = read_work_file(path)
        except (RefusedError, StoreError, OSError) as error:
            status = max(status, _refused(error))
    for result, files in joined(parts, data):
        try:
            loaded = load(submission_of(result, submission, submissions))
            case = case_of(result, loaded, problem_set_in(problems), baselines)
            case = replace(case, evaluators=(*case.evaluators, *(evaluator or ())))
            recorded = record(case, *files, data=data, reason=reason)
        except (RefusedError, StoreError, ValueError, OSError) as error:
            status = max(status, _refused(error))
        else:
            say(_describe(recorded))
    raise typer.Exit(status)


def _refused(error: Exception) -> int:
    """Say why a file is not recorded; give the exit status."""
    say(f"error: {words_for(error)}", err=True)
    return 2 if isinstance(error, OSError) else 1


def _describe(recorded: Recorded) -> str:
    result = recorded.result
    what = "recorded" if recorded.changed else "unchanged"
    rows = counted(len(result.rows), "row")
    return f"{what}: {recorded.path} revision {result.revision}, {rows} ({result.reason})"
