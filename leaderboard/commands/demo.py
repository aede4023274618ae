"""`kbl demo`: from a submission to a board on this machine's CPU, command by command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo_command)


def demo_command(
    folder: Annotated[Path, typer.Option(help="Where verdicts and records go.")] = Path("build/demo"),
    site: Annotated[Path, typer.Option(help="Where the site goes.")] = Path("build/site"),
) -> None:
    """Validate, evaluate, record and rank the demo's kernels on the CPU, and build the site.

    Run it in a checkout. A second run continues from what the first one left. Exit status 1 where a kernel
    has no verdict yet.
    """
    from leaderboard import demo

    if not demo.SUBMISSION.is_file():
        typer.echo(f"error: {demo.SUBMISSION} is not here; run kbl demo in a checkout of the board", err=True)
        raise typer.Exit(2)
    demo.prepare(folder)
    worst = 0
    for step in demo.steps(folder, site):
        typer.echo(f"\n# {step.purpose}\n$ kbl {shlex.join(step.arguments)}")
        status = demo.run(step)
        worst = max(worst, status)
        if status:
            typer.echo(f"error: that command ended with status {status}; kbl doctor may say why", err=True)
        if status and step.needed:
            raise typer.Exit(status)
    page = (site / "index.html").resolve()
    typer.echo(f"\nThe board is at {page.as_uri()}")
    typer.echo(f"To serve it: kbl site serve --out {site}")
    raise typer.Exit(worst)
