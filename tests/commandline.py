"""`kbl` as tests call it: within their own process, which loads its modules once, or in one of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from typer.testing import CliRunner

from leaderboard.cli import app

Done = subprocess.CompletedProcess[str]


def kbl(*arguments: object) -> Done:
    """Run a command here; what it does not catch itself is raised."""
    given = list(map(str, arguments))
    done = CliRunner().invoke(app, given, prog_name="kbl", catch_exceptions=False)
    return Done(given, done.exit_code, done.stdout, done.stderr)


def kbl_process(*arguments: object, **options: Any) -> Done:
    """Run a command as a person does, for what shows in a process alone; `options` are those of `run`."""
    command = [sys.executable, "-m", "leaderboard", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **options
    )
