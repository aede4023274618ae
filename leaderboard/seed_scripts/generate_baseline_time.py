"""`generate_baseline_time`: times PyTorch itself, plain and compiled, into KernelBench's timing files.

Each problem's own module, renamed, is judged like any kernel: its reference's times are the plain baseline,
the times of a copy under `torch.compile` the compiled one. So baselines come from the kernels' own clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.upstream.files import machine_of, timing_stats, write_text

from leaderboard.files.store import StoreError, read_strictly
from leaderboard.runs.reading import read_times
from leaderboard.seed_scripts.runner import run_script
from leaderboard.stages.checked import AnySet, checked_problem, reductions, sizes_on
from leaderboard.stages.engines import chosen_device, open_place
from leaderboard.texts.say import say

PLAIN = "baseline_time_torch"
COMPILED = "baseline_time_torch_compile_inductor_default"


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's script has its choices in the source; here they are options."""

    hardware_name: str
    levels: list[int] = field(default_factory=lambda: [1, 2, 3])
    subset: tuple[int | None, int | None] = (None, None)
    precision: str = "fp32"
    torch_compile: bool = True
    results_dir: str = "results/timing"
    device: str = "auto"
    problems_dir: str | None = None


def run(options: Options) -> int:
    """Time every problem and merge the times into the files; exit status 1 where some could not be timed."""
    device = chosen_device(options.device)
    folder = Path(options.results_dir) / options.hardware_name
    for name in (PLAIN, COMPILED):
        require_precision(folder / f"{name}.json", options.precision)
    engine = open_place("local", device).engine
    settings = Settings(device=device, precision=options.precision, sizes=sizes_on(device), trials=1)
    problems = list(_problems(options, device))
    names = {(p.level, p.problem_id): f"{p.name}.py" for p in problems}
    jobs = [job for problem in problems for job in _jobs(problem, compiled=options.torch_compile)]
    missing = 0
    for verdict in engine.run(jobs, settings):
        key = verdict.row.key
        timing = verdict.row.runtime_ms if key.sample else verdict.row.reference_ms
        missing += timing is None
        path = folder / f"{COMPILED if key.sample else PLAIN}.json"
        stats = timing_stats(timing, machine_of(verdict.environment))
        told = {**stats, "precision": options.precision} if stats else None
        merge(path, key.level, names[key.level, key.problem_id], told)
        said = f"{timing.mean:.4g} ms" if timing else verdict.row.status.value
        say(f"{path.stem} level {key.level} {names[key.level, key.problem_id]}: {said}")
    return 1 if missing else 0


def require_precision(path: Path, precision: str) -> None:
    """Raise StoreError where a timing file that is there already holds times in another precision."""
    if not path.is_file():
        return
    there = read_times(str(path), ProblemSet(PROBLEM_SET))
    if there.ms and there.precision != precision:
        raise StoreError(
            f"{path}: holds times in {there.precision}, not {precision}; name another results_dir=…"
        )


def merge(path: Path, level: int, name: str, value: dict[str, Any] | None) -> None:
    """Put one problem's times into a timing file, leaving the others as they are."""
    timings: dict[str, dict[str, Any]] = read_strictly(path) if path.is_file() else {}
    timings.setdefault(f"level{level}", {})[name] = value
    write_text(path, json.dumps(timings, indent=4) + "\n")


def _problems(options: Options, device: str) -> Iterator[Problem]:
    problem_set = AnySet(Path(options.problems_dir) if options.problems_dir else PROBLEM_SET)
    table = reductions(sizes_on(device))
    low, high = options.subset[0] or 1, options.subset[1] or 1000
    for level in options.levels:
        for problem_id in problem_set.ids(level):
            if low <= problem_id <= high:
                yield checked_problem(problem_set.load(level, problem_id)).reduced(table)


def _jobs(problem: Problem, *, compiled: bool) -> Iterator[Job]:
    copy = re.sub(r"\bModel\b", "ModelNew", problem.sized_source)
    yield Job(key=KernelKey(problem.level, problem.problem_id, 0), source=copy, problem=problem)
    if compiled:
        source = f"{copy}\nModelNew.forward = torch.compile(ModelNew.forward)\n"
        yield Job(key=KernelKey(problem.level, problem.problem_id, 1), source=source, problem=problem)


main = partial(run_script, Options, run)
