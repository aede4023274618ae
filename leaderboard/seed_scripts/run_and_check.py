"""`run_and_check`: judges one kernel file against one reference, and prints the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kernel_evaluator.labels.static_check import validate_kernel_static
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet
from kernel_evaluator.records.keys import KernelKey
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import Row, Sizes

from leaderboard.checks.kernels import is_too_deep
from leaderboard.runs.pack import read_source
from leaderboard.seed_scripts.runner import run_script, say_unused
from leaderboard.stages.checked import checked, checked_problem, reductions, sizes_on
from leaderboard.stages.engines import chosen_device, open_place
from leaderboard.stages.uses import judged
from leaderboard.texts.say import say

OWN_REFERENCE = (4, 1)
"""A reference of one's own is judged under this level and id: no table of work or sizes speaks of level 4."""

UNUSED = {
    **dict.fromkeys(("num_perf_trials", "timing_method"), "the evaluator times in interleaved batches"),
    "gpu": "Modal judges on the board's GPU, a machine of yours on its own",
    "gpu_arch": "kernels are compiled for the device they run on",
    **dict.fromkeys(
        ("build_dir_prefix", "clear_cache"), "builds are kept by content, in the evaluator's cache"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's options; below the blank line our own."""

    ref_origin: str
    kernel_src_path: str
    ref_arch_src_path: str = ""
    dataset_src: str = "huggingface"
    dataset_name: str = "ScalingIntelligence/KernelBench"
    level: int | None = None
    problem_id: int | None = None
    eval_mode: str = "local"
    gpu: str = "L40S"
    num_correct_trials: int = 5
    num_perf_trials: int = 100
    timeout: int = 300
    verbose: bool = False
    measure_performance: bool = True
    timing_method: str = "cuda_event"
    build_dir_prefix: str = ""
    clear_cache: bool = False
    gpu_arch: list[str] = field(default_factory=lambda: ["Ada"])
    precision: str = "fp32"
    backend: str = "cuda"
    check_kernel: bool = True

    device: str = "auto"


def run(options: Options) -> int:
    """Judge the kernel; exit status 0 where it is correct, else 1."""
    say_unused(options, Options(ref_origin="", kernel_src_path=""), UNUSED)
    source = read_source(Path(options.kernel_src_path))
    if options.check_kernel and not is_too_deep(source):
        for finding in _findings(source, options):
            say(f"static check: {finding}", err=True)
    device = chosen_device(options.device, options.eval_mode)
    sizes = sizes_on(device) if options.ref_origin == "kernelbench" else "full"
    problem = _problem(options, sizes)
    key = KernelKey(problem.level, problem.problem_id)
    settings = checked(
        Settings(
            sizes=sizes,
            device=device,
            precision=options.precision,
            trials=options.num_correct_trials,
            measure=options.measure_performance,
            timeout_s=float(options.timeout),
        )
    )
    engine = open_place(options.eval_mode, device).engine
    [verdict] = judged(engine, [Job(key=key, source=source, problem=problem)], settings)
    for line in describe(verdict.row):
        say(line)
    return 0 if verdict.row.is_correct else 1


def describe(row: Row) -> list[str]:
    """Say a verdict in lines of text."""
    lines = [f"status: {row.status}"]
    if row.trials_asked:
        lines.append(f"trials passed: {row.trials_passed} of {row.trials_asked}")
    if row.worst_error is not None:
        lines.append(f"largest error: {row.worst_error:.3g} times the tolerance")
    if row.runtime_ms and row.reference_ms and row.speedup and row.speedup_ci95:
        lines.append(f"kernel: {row.runtime_ms.median:.4g} ms, reference: {row.reference_ms.median:.4g} ms")
        low, high = row.speedup_ci95
        lines.append(f"speedup: {row.speedup:.3f}x (95 % interval {low:.3f} to {high:.3f})")
    if row.failure:
        lines += [f"{row.failure.name}: {row.failure.message}", *row.failure.log.splitlines()[-30:]]
    return lines


def _findings(source: str, options: Options) -> list[str]:
    _, errors, warnings = validate_kernel_static(source, options.backend, options.precision)
    return [*errors, *warnings]


def _problem(options: Options, sizes: Sizes) -> Problem:
    if options.ref_origin == "local":
        path = Path(options.ref_arch_src_path)
        level, problem_id = OWN_REFERENCE
        return checked_problem(
            Problem(level=level, problem_id=problem_id, name=path.stem, source=read_source(path), path=path)
        )
    if options.ref_origin != "kernelbench":
        raise ValueError(f"ref_origin must be local or kernelbench, got {options.ref_origin!r}")
    if options.level is None or options.problem_id is None:
        raise ValueError("ref_origin=kernelbench needs level=… and problem_id=…")
    problem = ProblemSet(PROBLEM_SET).load(options.level, options.problem_id)
    return problem.reduced(reductions(sizes))


main = partial(run_script, Options, run)
