"""How a command ends that cannot do what was asked.

Exit status 2: what was named cannot be read, or is not what it should be, so that nothing can be done.
Status 1: it was done, and something is not as it should be. So `validate` and `record`, which judge what a
file holds, end with 1 where that is wrong, and with 2 where it cannot be read.
"""

from __future__ import annotations

import typer

from leaderboard.texts.faults import words_for
from leaderboard.texts.say import say


def failed(error: Exception | str, status: int = 2) -> typer.Exit:
    """Say why, in a line; give what ends the command with the status.

    A fault of the machine is raised instead, for `cli.run` to end the command with.
    """
    say(f"error: {error if isinstance(error, str) else words_for(error)}", err=True)
    return typer.Exit(status)
