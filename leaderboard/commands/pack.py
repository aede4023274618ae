"""`kbl pack` and `kbl unpack`: run folders to a submission file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import Samples, finite
from leaderboard.texts.lists import counted
from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("pack")(pack_command)
    app.command("unpack")(unpack_command)


def pack_command(  # noqa: PLR0913  # one option a field of the metadata
    output: Annotated[Path, typer.Argument(help="The submission file: submissions/<entry>.json.")],
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or folders of kernels.")],
    *,
    display_name: Annotated[str, typer.Option(help="The name on the board; asked for when left out.")] = "",
    organization: Annotated[str, typer.Option(help="Who stands behind the entry.")] = "",
    notes: Annotated[str, typer.Option(help="Anything a reader should know.")] = "",
    run_name: Annotated[str, typer.Option(help="Name of the run that generated the kernels.")] = "",
    url: Annotated[str, typer.Option(help="A page about the entry.")] = "",
    backend: Annotated[str, typer.Option(help="cuda, triton, …")] = "",
    precision: Annotated[str, typer.Option(help="bf16 for the board of that; else fp32.")] = "",
    license_: Annotated[str, typer.Option("--license", help="The kernels' licence, as SPDX.")] = "",
    model: Annotated[str, typer.Option(help="The model's full name and version.")] = "",
    scaffold: Annotated[str, typer.Option(help="The agent or procedure around the model.")] = "",
    cost_usd: Annotated[
        float, typer.Option(help="What generating the entry cost.", min=0.0, callback=finite)
    ] = 0.0,
    tokens: Annotated[int, typer.Option(help="Tokens that it took, read and written.", min=0)] = 0,
    sample: Samples = None,
) -> None:
    """Pack kernels into a submission file and check it. What the runs recorded of the model is taken along.

    A file that is there is replaced by a valid one alone.

    Exit status: 0 written and valid, 1 written with mistakes to mend, 2 nothing written.
    """
    from leaderboard.runs.pack import PackError, find_kernels, generation_metadata, nameless, unlike

    named = {"model": model, "backend": backend, "precision": precision}
    try:
        kernels = find_kernels(folders, sample or ())
        left_out = nameless(folders)
        recorded = generation_metadata(folders)
        unsure = unlike(folders, [name for name, value in named.items() if value])
    except (PackError, OSError) as error:
        raise failed(error) from error
    for path in left_out:
        say(f"warning: {path} is left out: its name is no kernel's", err=True)
    for what in unsure:
        say(f"warning: {what}", err=True)
    generation = {"model": model, "scaffold": scaffold, "cost_usd": cost_usd, "tokens": tokens}
    given = {
        "display_name": display_name or _ask_display_name(),
        "organization": organization,
        "run_name": run_name,
        "notes": notes,
        "url": url,
        "backend": backend,
        "precision": precision,
        "license": license_,
    }
    metadata: dict[str, Any] = {**recorded, **{name: value for name, value in given.items() if value}}
    known = {**recorded.get("generation", {}), **{name: value for name, value in generation.items() if value}}
    raise typer.Exit(
        write_submission(output, kernels, {**metadata, "generation": known} if known else metadata)
    )


def write_submission(output: Path, kernels: Any, metadata: dict[str, Any]) -> int:
    """Pack, write, and say what is missing or to be mended; give the exit status."""
    from leaderboard.commands.validate import unscored_words
    from leaderboard.runs.pack import pack, write

    packed = pack(kernels, metadata, output.name)
    is_there = output.is_file()
    if not (is_there and packed.mistakes):
        try:
            write(output, packed)
        except (OSError, UnicodeEncodeError) as error:  # the latter: an option that is no UTF-8
            why = error.strerror if isinstance(error, OSError) else error
            say(f"error: {output} cannot be written: {why}", err=True)
            return 2
        replaced = ", in place of the file that was there" if is_there else ""
        say(f"{counted(packed.kernels, 'kernel')} written to {output}{replaced}")
    for level, count in packed.missing.items():
        failing = "it counts" if count == 1 else "each counts"
        say(f"warning: level {level} lacks {counted(count, 'kernel')}; {failing} as failed", err=True)
    if packed.unscored:
        say(f"warning: {unscored_words(packed.unscored)}", err=True)
    for mistake in packed.mistakes:
        say(f"{output}:{mistake.line}: {mistake.rule}: {mistake.message}; {mistake.mend}", err=True)
    for each in packed.warnings:
        say(f"warning: {each.message}; {each.mend}", err=True)
    if packed.mistakes and is_there:
        say(f"error: {output} is left as it was: what would take its place has mistakes", err=True)
        return 2
    return 1 if packed.mistakes else 0


def unpack_command(
    submission: Annotated[Path, typer.Argument(help="A submission file.")],
    *,
    runs: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    run_name: Annotated[str, typer.Option(help="Name of the runs; the entry's id when left out.")] = "",
) -> None:
    """Write a submission's kernels into run folders, one a level: RUNS/NAME_level1 and so on.

    A folder that holds other kernels is left as it is. Exit status: 0 written, 2 nothing written: the
    submission cannot be read, the name is none, or other kernels are there.
    """
    from leaderboard.files.submission import InvalidSubmissionError, load
    from leaderboard.runs.pack import PackError, unpack

    try:
        loaded = load(submission)
        written = unpack(loaded, runs, run_name or loaded.entry)
    except (InvalidSubmissionError, PackError, ValueError, OSError) as error:
        raise failed(error) from error
    for folder in written:
        say(str(folder))


def _ask_display_name() -> str:
    if not sys.stdin.isatty():
        raise failed("--display-name is required where nobody can be asked")
    return str(typer.prompt("Name on the board"))
