"""`combine_runs_to_submission`: one run a level into one submission file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernel_evaluator.records.keys import KernelKey

from leaderboard.commands.pack import write_submission
from leaderboard.runs.pack import PackError, find_kernels, generation_metadata, unlike
from leaderboard.seed_scripts.runner import run_script
from leaderboard.texts.say import say


@dataclass(frozen=True, kw_only=True)
class Options:
    """The earlier board's options; `level4_run` is new. Sample 0 of each problem is taken."""

    level1_run: str
    level2_run: str
    level3_run: str
    output: str
    display_name: str
    level4_run: str = ""
    organization: str = ""
    notes: str = ""
    runs_dir: str = "runs"


def run(options: Options) -> int:
    """Pack the runs; exit status 1 where the submission has mistakes to mend."""
    named = (options.level1_run, options.level2_run, options.level3_run, options.level4_run)
    runs = [Path(options.runs_dir) / name for name in dict.fromkeys(named) if name]
    for what in unlike(runs):
        say(f"warning: {what}", err=True)
    metadata = {
        **generation_metadata(runs),
        "display_name": options.display_name,
        "organization": options.organization,
        "notes": options.notes,
    }
    kept = {name: value for name, value in metadata.items() if value}
    kernels: dict[KernelKey, str] = {}
    for level, name in enumerate(named, start=1):
        kernels |= _of_level(level, Path(options.runs_dir) / name) if name else {}
    return write_submission(Path(options.output), kernels, kept)


def _of_level(level: int, run: Path) -> dict[KernelKey, str]:
    """Read a level's kernels; raise PackError where the run has none, since each would count as failed."""
    found = find_kernels([run], samples=[0])
    kernels = {key: source for key, source in found.items() if key.level == level}
    if not kernels:
        there = " and ".join(map(str, sorted({key.level for key in found})))
        raise PackError(
            f"level{level}_run: {run} holds kernels of level {there}; name a run of level {level}"
        )
    return kernels


main = partial(run_script, Options, run)
