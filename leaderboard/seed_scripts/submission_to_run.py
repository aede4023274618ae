"""`submission_to_run`: a submission file back into run folders, one a level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leaderboard.files.submission import load
from leaderboard.runs.pack import unpack
from leaderboard.seed_scripts.runner import run_script
from leaderboard.texts.say import say


@dataclass(frozen=True, kw_only=True)
class Options:
    """The earlier board's options."""

    submission: str
    output_dir: str = "runs"
    run_name: str = ""


def run(options: Options) -> int:
    """Write the folders and name them."""
    submission = load(Path(options.submission))
    for folder in unpack(submission, Path(options.output_dir), options.run_name or submission.entry):
        say(str(folder))
    return 0


main = partial(run_script, Options, run)
