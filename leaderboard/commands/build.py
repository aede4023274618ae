"""`kbl build`: compiles the kernels of submissions before they are judged, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard.commands.ends import failed
from leaderboard.commands.options import (
    Levels,
    Only,
    Problems,
    Samples,
    finite,
    picked_of,
    problem_set_in,
    selection_of,
)
from leaderboard.stages.checked import LONGEST_S
from leaderboard.texts.say import say

if TYPE_CHECKING:
    from kernel_evaluator.problems.jobs import Job
    from kernel_evaluator.problems.problem_set import ProblemSet
    from kernel_evaluator.records.rows import Sizes

    from leaderboard.stages.build import KernelBuild
    from leaderboard.stages.plan import Selection

_SHOWN_LOG_CHARACTERS = 3000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("build")(build_command)


def _targets(arch: str | None) -> str | None:
    """Give back what can be compiled for; the callback of the option."""
    from kernel_evaluator.machine.architectures import require_cuda_targets

    try:
        if arch:  # empty: for no GPU
            require_cuda_targets(arch)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return arch


def build_command(  # noqa: PLR0913  # one option a choice
    paths: Annotated[list[Path], typer.Argument(help="Submission files.")],
    *,
    jobs: Annotated[int | None, typer.Option(min=1, help="Builds at a time.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of finished builds.")] = None,
    arch: Annotated[
        str | None, typer.Option(help="Target, such as 9.0a; this machine's GPU.", callback=_targets)
    ] = None,
    problems: Problems = None,
    level: Levels = None,
    only: Only = "",
    sample: Samples = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds a build may take.", min=1.0, max=LONGEST_S, callback=finite)
    ] = 600.0,
    logs: Annotated[bool, typer.Option(help="Print the compiler's words for what failed.")] = True,
) -> None:
    """Compile what needs compiling; what is in the cache already is not built again.

    Exit status: 0 all that needs building is built, 1 a kernel does not compile, 2 the command cannot start.
    """
    from kernel_evaluator.machine.extras import require

    require("evaluate", "kbl build")
    from kernel_evaluator.building.builder import Builder

    from leaderboard.stages.build import build_all, summary_table

    try:
        problem_set = problem_set_in(problems)
        selection = selection_of(level, only, sample)
        with Builder(cache_root=cache, workers=jobs, arch=arch, timeout_s=timeout) as builder:
            sizes: Sizes = "full" if builder.arch else "reduced"
            wanted = [each for path in paths for each in _jobs(path, problem_set, selection, sizes)]
            builds = build_all(builder, wanted, _Lines(len(wanted)).show)
    except (ValueError, OSError) as error:
        raise failed(error) from error
    broken = [build for build in builds if build.is_failed]
    for build in broken if logs else []:
        say(f"\n{build.entry} {build.key}: {build.message}\n{build.log[-_SHOWN_LOG_CHARACTERS:]}")
    say("\n" + summary_table(builds))
    raise typer.Exit(1 if broken else 0)


def _jobs(
    path: Path, problem_set: ProblemSet, selection: Selection, sizes: Sizes
) -> Iterator[tuple[str, Job]]:
    """Read a submission's kernels as jobs; those for problems that the set lacks are left out."""
    from kernel_evaluator.problems.jobs import Job

    from leaderboard.files.submission import load
    from leaderboard.stages.evaluate import load_problems

    submission = load(path)
    try:
        wanted = dict(sorted(picked_of(submission.kernels, selection).items()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    known = load_problems(problem_set, wanted, sizes)
    for key, source in wanted.items():
        if (key.level, key.problem_id) in known:
            yield path.stem, Job(key=key, source=source, problem=known[key.level, key.problem_id])


class _Lines:
    """A line for each kernel as its build ends, on standard error."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def show(self, build: KernelBuild) -> None:
        self._done += 1
        if build.status == "not_needed":
            return
        how = "from the cache" if build.reused else f"{build.seconds:.1f} s"
        place = f"{build.key.level}/{build.key.problem_id}"
        line = f"[{self._done}/{self._total}] {build.entry} {place} {'+'.join(build.backends)}"
        say(f"{line}: {build.status}, {how}{': ' if build.message else ''}{build.message}", err=True)
