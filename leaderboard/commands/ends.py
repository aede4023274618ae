"""How a command ends that cannot do what was asked."""

from __future__ import annotations

import typer

from leaderboard.texts.faults import words_for
from leaderboard.texts.say import say


def failed(error: Exception | str, status: int = 1) -> typer.Exit:
    """Say why, in a line; give what ends the command with the status.

    A fault of the machine is raised instead, for `cli.run` to end the command with.
    """
    say(f"error: {error if isinstance(error, str) else words_for(error)}", err=True)
    return typer.Exit(status)
