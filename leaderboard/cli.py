"""The command line `kbl`: collects the subcommands. Decides nothing itself."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """KernelBench Leaderboard: validate, evaluate, record, aggregate and render GPU kernels."""


# Each module of `leaderboard.commands` has `register(app)`, which adds its subcommands.
for _commands in ():
    _commands.register(app)
