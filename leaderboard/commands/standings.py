"""`kbl standings`: the boards as a table, Markdown, CSV or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import Format, Output
from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("standings")(standings_command)


def standings_command(
    *,
    gpu: Annotated[str, typer.Option(help="Only this board: H100, CPU-reduced. All where left out.")] = "",
    data: Annotated[Path, typer.Option(help="Folder of the recorded results.")] = Path("data"),
    submissions: Annotated[Path, typer.Option(help="Folder of the submissions.")] = Path("submissions"),
    output: Output = Format.TABLE,
) -> None:
    """Show who stands where. A `~` marks a share that a measurement's uncertainty could change.

    Exit status: 0 shown, 2 a file is broken or there is no such board.
    """
    from leaderboard.files.store import StoreError, require_data
    from leaderboard.files.submission import InvalidSubmissionError
    from leaderboard.show import tables
    from leaderboard.stages.boards import load_boards

    try:
        require_data(data, submissions)
        boards = load_boards(data, submissions)
    except (StoreError, InvalidSubmissionError, OSError) as error:
        raise failed(error) from error
    chosen = [board for board in boards if gpu in ("", board.name)]
    if gpu and not chosen:
        known = ", ".join(board.name for board in boards) or "none"
        raise failed(f"--gpu must be one of the boards ({known}), got {gpu!r}")
    if output is Format.CSV:
        say(tables.as_csv(chosen), nl=False)
    elif output is Format.JSON:
        say(tables.as_json(chosen))
    else:
        say(
            tables.as_table(chosen, output.style) or f"no results under {data} of entries under {submissions}"
        )
