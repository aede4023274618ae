"""Starts a script: reads its options, runs it, and turns what may go wrong into one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kernel_evaluator.machine.extras import MissingExtraError

from leaderboard.files.store import StoreError
from leaderboard.files.submission import InvalidSubmissionError
from leaderboard.runs.pack import PackError
from leaderboard.seed_scripts.options import OptionError, asks_for_help, help_text, read_options
from leaderboard.stages.engines import EvaluationError
from leaderboard.stages.record import RefusedError
from leaderboard.texts.faults import plain_words
from leaderboard.texts.say import say

T = TypeVar("T")

_PEOPLES_ERRORS = (
    MissingExtraError,
    OptionError,
    PackError,
    StoreError,
    RefusedError,
    EvaluationError,
    InvalidSubmissionError,
    ValueError,
    KeyError,
    OSError,
)


def run_script(kind: type[T], run: Callable[[T], int], arguments: Sequence[str]) -> int:
    """Give the script's exit status; 2 where it cannot start or go on. Asked for help it says its options."""
    if asks_for_help(arguments):
        say(help_text(kind))
        return 0
    try:
        return run(read_options(kind, arguments))
    except _PEOPLES_ERRORS as error:
        say(f"error: {plain_words(error)}", err=True)
        return 2
    except KeyboardInterrupt:
        say("interrupted; what is finished is kept, and the same command continues", err=True)
        return 130


def say_unused(options: object, defaults: object, why: dict[str, str]) -> None:
    """Say of options that were given and change nothing here why that is."""
    for name, reason in why.items():
        if getattr(options, name) != getattr(defaults, name, None):
            say(f"note: {name} changes nothing here: {reason}", err=True)
