"""The one way to a person's terminal. What strangers wrote arrives there as text, never as commands to it."""

from __future__ import annotations

import typer

from leaderboard.texts.inert import visible


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Write text without terminal sequences, controls and direction marks, by default as a line."""
    typer.echo(visible(text), err=err, nl=nl)
