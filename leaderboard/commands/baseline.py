"""`kbl baseline`: PyTorch's own times a problem; imports published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

baseline_app = typer.Typer(no_args_is_help=True, help="PyTorch's own times, for orientation beside results.")


def register(app: typer.Typer) -> None:
    """Add the command with its subcommands."""
    app.add_typer(baseline_app, name="baseline")


@baseline_app.command("import")
def import_command(
    *,
    eager: Annotated[Path | None, typer.Option(help="KernelBench's timing file of plain PyTorch.")] = None,
    compiled: Annotated[Path | None, typer.Option(help="The same of torch.compile.")] = None,
    source: Annotated[str, typer.Option(help="Who measured it, where and how: shown beside the times.")],
    gpu: Annotated[str, typer.Option(help="Board; by default that of the device in the files.")] = "",
    measured_here: Annotated[
        bool, typer.Option("--measured-here", help="The times are this evaluator's own.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the baselines.")] = Path("baselines"),
) -> None:
    """Turn KernelBench's timing files into `baselines/<gpu>.json`.

    The files may be published ones, or those that scripts/generate_baseline_time.py has written.

    Exit status: 0 written, 1 a file is broken or names a problem that the set lacks.
    """
    from kernelbench.baselines import BaselineFile, device_of, dump_baseline, import_timings
    from kernelbench.figures import gpu_model
    from kernelbench.problems import ProblemSet
    from kernelbench.rows import Environment

    from leaderboard.store import StoreError, read_strictly, write_atomically

    try:
        if eager is None and compiled is None:
            raise ValueError("give --eager, --compiled or both")
        files = [None if path is None else read_strictly(path) for path in (eager, compiled)]
        device = device_of(*files)
        problems, unknown = import_timings(files[0], files[1], ProblemSet())
    except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _failed(str(error)) from error
    if unknown:
        raise _failed(f"the problem set lacks {len(unknown)} of the names, first {unknown[0]}")
    model = gpu or gpu_model(device)
    baseline = BaselineFile(
        gpu=model,
        source=source,
        measured_here=measured_here,
        environment=Environment(device=device, gpu=model),
        problems=problems,
    )
    path = out / f"{model}.json"
    write_atomically(path, dump_baseline(baseline))
    typer.echo(f"{path}: {len(problems)} problems on {device}")


@baseline_app.command("show")
def show_command(
    path: Annotated[Path, typer.Argument(help="A file such as baselines/H100.json.")],
) -> None:
    """Print a baseline as a table: milliseconds a call, the median where known."""
    from tabulate import tabulate

    from leaderboard.baselines import read_baseline
    from leaderboard.store import StoreError

    try:
        baseline = read_baseline(path)
    except (OSError, StoreError) as error:
        raise _failed(str(error)) from error
    lines = [
        [
            name.replace("_", "/"),
            times.eager.typical if times.eager else None,
            times.compiled.typical if times.compiled else None,
        ]
        for name, times in baseline.problems.items()
    ]
    typer.echo(f"{baseline.gpu}: {baseline.environment.device}; {baseline.source}")
    typer.echo(tabulate(lines, headers=["problem", "eager ms", "compiled ms"], missingval="-"))


def _failed(message: str) -> typer.Exit:
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(1)
