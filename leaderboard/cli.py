"""The command line `kbl`: one subcommand a stage. Parses arguments and calls the stage; decides nothing itself."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """KernelBench Leaderboard: validate, evaluate, record, aggregate and render GPU kernels."""
