"""`kbl export`: training data out of runs, and the board's release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import finite
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from leaderboard.export.samples import Sample
    from leaderboard.export.schemas import Columns
    from leaderboard.export.tables import Card, Table
    from leaderboard.export.training import Data

_Runs = Annotated[list[Path], typer.Argument(help="Run folders of kbl generate.")]
_Out = Annotated[Path, typer.Option(help="Folder to write.")]
_Results = Annotated[
    list[Path] | None, typer.Option(help="A work file or result with the runs' rows; may be repeated.")
]
_Thinking = Annotated[bool, typer.Option("--thinking", help="Keep what the model thought, where it passes.")]
_MaxThinking = Annotated[int, typer.Option(help="Longest thinking that is kept, in characters.")]
_Latin = Annotated[
    float,
    typer.Option(
        help="Least share of Latin letters in thinking that is kept.", min=0.0, max=1.0, callback=finite
    ),
]
_License = Annotated[
    str, typer.Option("--license", help="The data's licence, as an SPDX expression or `other`.")
]

RUNS_TEXT = (
    "Replies of language models that were asked for GPU kernels, beside the verdicts that an evaluator of "
    "KernelBench's problems reached on them."
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Write training data, or the board, as tables that `datasets` loads.")
    group.command("conversations")(conversations_command)
    group.command("preferences")(preferences_command)
    group.command("trajectories")(trajectories_command)
    group.command("board")(board_command)
    app.add_typer(group, name="export")


def conversations_command(  # one option a choice
    runs: _Runs,
    *,
    out: _Out,
    result: _Results = None,
    thinking: _Thinking = False,
    max_thinking: _MaxThinking = 60_000,
    min_latin: _Latin = 0.9,
    min_speedup: Annotated[
        float, typer.Option(help="Only kernels at least so fast.", min=0.0, callback=finite)
    ] = 0.0,
    license_: _License = "other",
) -> None:
    """Write conversations that end in a correct kernel, for supervised fine-tuning.

    Exit status: 0 written, 1 nothing is fit, 2 a run or result cannot be read.
    """
    from leaderboard.export.schemas import CONVERSATIONS
    from leaderboard.export.thinking import Thinking
    from leaderboard.export.training import conversations

    chosen = Thinking(keep=thinking, max_characters=max_thinking, min_latin=min_latin)
    _export(
        "conversations",
        CONVERSATIONS,
        out,
        license_,
        runs,
        result or [],
        lambda samples: conversations(samples, chosen, min_speedup),
    )


def preferences_command(
    runs: _Runs,
    *,
    out: _Out,
    result: _Results = None,
    thinking: _Thinking = False,
    pairs: Annotated[int, typer.Option(help="Pairs a prompt, at most.", min=1)] = 4,
    license_: _License = "other",
) -> None:
    """Write pairs of answers to the same prompt, the better and the worse one.

    Exit status: 0 written, 1 nothing is fit, 2 a run or result cannot be read.
    """
    from leaderboard.export.schemas import PREFERENCES
    from leaderboard.export.thinking import Thinking
    from leaderboard.export.training import preferences

    chosen = Thinking(keep=thinking)
    _export(
        "preferences",
        PREFERENCES,
        out,
        license_,
        runs,
        result or [],
        lambda samples: preferences(samples, chosen, pairs),
    )


def trajectories_command(
    runs: _Runs,
    *,
    out: _Out,
    result: _Results = None,
    thinking: _Thinking = False,
    license_: _License = "other",
) -> None:
    """Write every sample's turns in order, with a reward each.

    Exit status: 0 written, 1 nothing is fit, 2 a run or result cannot be read.
    """
    from leaderboard.export.schemas import TRAJECTORIES
    from leaderboard.export.thinking import Thinking
    from leaderboard.export.training import trajectories

    chosen = Thinking(keep=thinking)
    _export(
        "trajectories",
        TRAJECTORIES,
        out,
        license_,
        runs,
        result or [],
        lambda samples: trajectories(samples, chosen),
    )


def board_command(
    *,
    out: _Out,
    data: Annotated[Path, typer.Option(help="Recorded results.")] = Path("data"),
    submissions: Annotated[Path, typer.Option(help="Merged entries.")] = Path("submissions"),
) -> None:
    """Write what the boards show, with the kernels' code, as one release to download and cite.

    Exit status: 0 written, 1 the boards are empty, 2 a file cannot be read.
    """
    from kernel_evaluator.machine.extras import require

    from leaderboard.export.release import read_release
    from leaderboard.export.schemas import ENTRIES, KERNELS
    from leaderboard.export.tables import Card, Table
    from leaderboard.files.store import StoreError, require_data
    from leaderboard.files.submission import InvalidSubmissionError

    require("export", "kbl export")
    try:
        require_data(data, submissions)
        kernels, entries = read_release(data, submissions)
    except (StoreError, InvalidSubmissionError, OSError) as error:
        raise failed(error) from error
    card = Card(
        title="KernelBench Leaderboard: kernels, verdicts and times",
        text="Every published verdict of the board, with its interval, its evidence and the kernel's code. "
        "Code is under the licence that its entry names.",
        license="other",
        citation="Cite the release by its newest `finished_at` and the digest of its evaluator, and the "
        "problem set as KernelBench (Ouyang et al., 2025, arXiv:2502.10517).",
    )
    tables = [
        Table(name="kernels", columns=KERNELS, lines=kernels),
        Table(name="entries", columns=ENTRIES, lines=entries),
    ]
    _write(out, tables, card)


def _export(
    name: str,
    columns: Columns,
    out: Path,
    license_: str,
    runs: list[Path],
    results: list[Path],
    make: Callable[[list[Sample]], Data],
) -> None:
    from kernel_evaluator.machine.extras import require

    from leaderboard.export.samples import read_samples
    from leaderboard.export.tables import Card, Table
    from leaderboard.files.store import StoreError

    require("export", "kbl export")
    try:
        data = make(read_samples(runs, results))
    except (StoreError, OSError) as error:
        raise failed(error) from error
    table = Table(name=name, columns=columns, lines=data.lines, left_out=data.left_out)
    for reason, count in sorted(data.left_out.items()):
        say(f"left out: {count} {reason}")
    _write(out, [table], Card(title=f"GPU kernels: {name}", text=RUNS_TEXT, license=license_))


def _write(out: Path, tables: list[Table], card: Card) -> None:
    from leaderboard.export.tables import write

    try:
        write(out, tables, card)
    except (ValueError, OSError) as error:
        raise failed(error) from error
    said = ", ".join(f"{len(table.lines)} {table.name}" for table in tables)
    say(f"{said} in {out}")
    raise typer.Exit(0 if any(table.lines for table in tables) else 1)
