"""The command line `kbl`: collects the subcommands. Decides nothing itself."""

from __future__ import annotations

from importlib import import_module

import typer

COMMAND_MODULES = (
    # One line a module of `leaderboard.commands`, in the order of the help. Each has `register(app)`
    # and imports what is heavy inside its functions: `kbl --help` loads them all.
    "validate",
    "doctor",
    "demo",
    "plan",
    "build",
    "site",
    "evaluate",
    "record",
    "audit",
    "generate",
    "pack",
    "analyze",
    "serve",
    "standings",
    "problems",
    "baseline",
    "ci",
)

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """KernelBench Leaderboard: validate, evaluate, record, aggregate and render GPU kernels."""


for _name in COMMAND_MODULES:
    import_module(f"leaderboard.commands.{_name}").register(app)
