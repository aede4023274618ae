"""The demo: the commands that lead from a submission to a board, for the kernels that run on any CPU.

Owns the list of commands. Each runs as a process of its own, just as a person would type it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_evaluator.records.rows import board_name

from leaderboard.files.store import RECORDED, result_path
from leaderboard.resources import CPU_DEMO

TIMEOUT_S = 40
"""Seconds a kernel of the demo may take; the one that never returns takes them all."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of the demo: why it is run, and its arguments after `kbl`.

    `needed` says that the demo ends where the command ends with 1, as it does wherever one cannot go on.
    """

    purpose: str
    arguments: tuple[str, ...]
    needed: bool = True


def steps(folder: Path, site: Path, submission: Path) -> Iterator[Step]:
    """Give the demo's commands; all that they write is in `folder` and `site`."""
    data, work = str(folder / "data"), folder / "work"
    board = board_name("CPU", "reduced")
    merged = ("--data", data, "--submissions", str(submission.parent))
    result = result_path(work, board, submission.stem)
    yield Step(
        purpose="Check the submission: seconds, no kernel runs.",
        arguments=("validate", str(submission)),
    )
    where = ("--device", "cpu", "--sizes", "reduced", "--timeout", str(TIMEOUT_S))
    yield Step(
        purpose="Build, judge and time its kernels on the CPU. Three of them fail on purpose.",
        arguments=("evaluate", str(submission), *where, "--data", data, "--work", str(work)),
        needed=False,
    )
    yield Step(
        purpose="Record the verdicts, after checking what can be checked.",
        arguments=("record", str(result), *merged),
    )
    yield Step(
        purpose="Compute the standings.",
        arguments=("standings", "--gpu", board, *merged),
    )
    yield Step(
        purpose="Build the site.",
        arguments=("site", "build", *merged, "--out", str(site)),
    )


def prepare(folder: Path, recorded: Path = Path("data")) -> Path:
    """Give the demo a copy of the recorded results, and say where its submission is.

    In a checkout its board stands beside the others; elsewhere it stands alone. What else is called `data`
    where one stands stays there, however large.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for name in RECORDED:
        if (recorded / name).is_dir():
            shutil.copytree(recorded / name, folder / "data" / name, dirs_exist_ok=True)
        elif (recorded / name).is_file():
            shutil.copy(recorded / name, folder / "data" / name)
    here = Path("submissions", CPU_DEMO.name)
    return here if here.is_file() else CPU_DEMO


def run(step: Step) -> int:
    """Run one command with this terminal as its own; give its exit status."""
    return subprocess.run([sys.executable, "-m", "leaderboard", *step.arguments], check=False).returncode
