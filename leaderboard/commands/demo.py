"""`kbl demo`: from a submission to a board on this machine's CPU, command by command."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from leaderboard.texts.say import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo_command)


def demo_command(
    folder: Annotated[Path, typer.Option(help="Where verdicts and records go.")] = Path("build/demo"),
    site: Annotated[Path, typer.Option(help="Where the site goes.")] = Path("build/site"),
) -> None:
    """Validate, evaluate, record and rank the demo's kernels on the CPU, and build the site.

    A second run continues from what the first one left. Exit status 1 where a kernel has no verdict yet.
    """
    from kernel_evaluator.machine.extras import require

    from leaderboard import demo

    require("evaluate", "kbl demo")
    submission = demo.prepare(folder)
    worst = 0
    for step in demo.steps(folder, site, submission):
        say(f"\n# {step.purpose}\n$ kbl {shlex.join(step.arguments)}")
        status = demo.run(step)
        worst = max(worst, status)
        if status:
            say(f"error: that command ended with status {status}; kbl doctor may say why", err=True)
        if status and (step.needed or status != 1):
            raise typer.Exit(status)
    page = (site / "index.html").resolve()
    say(f"\nTo see the board: {_how_it_was_called()} site serve --out {site}")
    say(f"Without search, switches and comparisons: {page.as_uri()}")
    raise typer.Exit(worst)


def _how_it_was_called() -> str:
    """`kbl` where a shell finds it, else the path of the script: `make demo` puts none on the path."""
    script = sys.argv[0]
    return "kbl" if shutil.which("kbl") or Path(script).name != "kbl" else shlex.quote(script)
