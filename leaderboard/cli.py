"""The command line `kbl`: collects the subcommands. Decides nothing itself."""

from __future__ import annotations

import io
import os
import signal
import sys
from importlib import import_module
from typing import Annotated

import typer
from kernel_evaluator.machine.extras import MissingExtraError

from leaderboard.texts.faults import MACHINES, words_for
from leaderboard.texts.say import say

COMMAND_MODULES = (
    # One line a module of `leaderboard.commands`, in the order of the help. Each has `register(app)`
    # and imports what is heavy inside its functions: `kbl --help` loads them all.
    "validate",
    "doctor",
    "demo",
    "plan",
    "build",
    "evaluate",
    "record",
    "audit",
    "certify",
    "generate",
    "pack",
    "analyze",
    "serve",
    "standings",
    "site",
    "export",
    "problems",
    "baseline",
    "board",
    "ci",
)

_INTERRUPTED = 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _show_version(asked: bool) -> None:
    from kernel_evaluator.problems.problem_set import SET_VERSION
    from kernel_evaluator.records.version import EVALUATOR_VERSION, evaluator_sha256

    if asked:
        say(f"kbl {EVALUATOR_VERSION}, evaluator {evaluator_sha256()[:12]}, KernelBench {SET_VERSION}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which this is.")
    ] = False,
) -> None:
    """KernelBench Leaderboard: validate, evaluate, record, aggregate and render GPU kernels."""


for _name in COMMAND_MODULES:
    import_module(f"leaderboard.commands.{_name}").register(app)


def run() -> None:
    """Run the command that the process was started with; end with its status, whatever stands in its way.

    A full disk, a path that cannot be used, a missing extra and a signal end with a line, not a traceback.
    """
    try:
        signal.signal(signal.SIGTERM, _terminate)
        _open_what_is_closed()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # of what a terminal's encoding lacks
        status = _status()
        sys.stdout.flush()
    except KeyboardInterrupt:  # while the options of all verbs are still read, or what was said is written
        status = 128 + (_signals or [signal.SIGINT])[0]
    except MissingExtraError as error:
        status = _cannot(str(error))
    except OSError as error:
        status = _cannot(_words_of(error))
    for number in (signal.SIGINT, signal.SIGTERM):  # which Python would answer with a traceback while it ends
        signal.signal(number, signal.SIG_DFL)
    sys.exit(status)


def _open_what_is_closed() -> None:
    """Let standard streams that were closed before the start lead nowhere.

    Else the next file that is opened has their number, and gets what processes started here print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def _words_of(error: OSError) -> str:
    """Say what the machine, or a path, does not allow; raise an error again that names neither."""
    if error.errno in MACHINES:
        # It is written to once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = error.filename or "standard output, or what lies in TMPDIR,"
        return f"{where} cannot be written: {error.strerror}"
    if error.filename is None:
        raise error
    return words_for(error)


_signals: list[int] = []


def _status() -> int:
    try:
        app(prog_name="kbl")
    except SystemExit as ended:
        if ended.code == _INTERRUPTED and _signals:
            return 128 + _signals[0]
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _terminate(number: int, _: object) -> None:
    """End as Ctrl-C does: what is finished is kept, and what was started is ended."""
    _signals.append(number)
    raise KeyboardInterrupt


def _cannot(message: str) -> int:
    say(f"error: {message}", err=True)
    return 2
