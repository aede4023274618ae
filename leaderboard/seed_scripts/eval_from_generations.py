"""`eval_from_generations`: judges one level of a run folder and writes KernelBench's result files."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

from kernel_evaluator.building.builder import CACHE_VARIABLE, Builder
from kernel_evaluator.machine.extras import require
from kernel_evaluator.problems.jobs import Job, Settings
from kernel_evaluator.records.places import PROBLEM_SET
from kernel_evaluator.records.rows import Profile, Status
from kernel_evaluator.upstream.files import RunFolder

from leaderboard.runs.run_evaluation import RunEvaluation, put_aside_foreign_results
from leaderboard.seed_scripts.runner import run_script, say_unused
from leaderboard.show.progress import Reporter
from leaderboard.stages.build import build_all, summary_table
from leaderboard.stages.checked import AnySet, checked, sizes_on
from leaderboard.stages.engines import Place, chosen_device, open_place
from leaderboard.stages.evaluate import load_problems
from leaderboard.texts.say import say

UNUSED = {
    "num_perf_trials": "timing goes on until its interval is tight, and compat times a hundred calls",
    "timing_method": "the evaluator times candidate and reference in interleaved batches",
    "gpu_arch": "kernels are compiled for the device they run on",
    "gpu": "Modal judges on the board's GPU, a machine of yours on its own",
    "backend": "each source tells its own",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's options; below the blank line our own. `device=cpu` judges at reduced sizes."""

    run_name: str
    dataset_src: str
    level: int
    dataset_name: str = "ScalingIntelligence/KernelBench"
    subset: tuple[int | None, int | None] = (None, None)
    problem_ids: list[int] = field(default_factory=list)
    eval_mode: str = "local"
    gpu: str = "A10G"
    gpu_arch: list[str] = field(default_factory=lambda: ["Ada"])
    runs_dir: str = "runs"
    verbose: bool = False
    num_correct_trials: int = 5
    num_perf_trials: int = 100
    timeout: int = 180
    measure_performance: bool = True
    timing_method: str = "cuda_event"
    build_cache: bool = False
    num_cpu_workers: int = 20
    kernel_eval_build_dir: str = ""
    num_gpu_devices: int = 1
    backend: str = "cuda"
    precision: str = "fp32"
    num_samples_per_problem: int = 1
    pass_at_k_values: list[int] = field(default_factory=lambda: [1])

    device: str = "auto"
    profile: str = "ranked"
    problems_dir: str | None = None


def run(options: Options) -> int:
    """Judge what has no verdict yet; exit status 1 where some kernel got none."""
    unused = {
        name: why for name, why in UNUSED.items() if (name, options.profile) != ("timing_method", "compat")
    }
    if not options.build_cache:
        unused["num_cpu_workers"] = "it says how many build ahead with build_cache=True"
    say_unused(options, Options(run_name="", dataset_src="", level=1), unused)
    if options.kernel_eval_build_dir:
        os.environ[CACHE_VARIABLE] = str(Path(options.kernel_eval_build_dir).resolve())
    place, settings = _place(options), _settings(options, chosen_device(options.device, options.eval_mode))
    evaluation = RunEvaluation(
        run=RunFolder(path=Path(options.runs_dir) / options.run_name),
        level=options.level,
        settings=settings,
        problem_set=AnySet(Path(options.problems_dir) if options.problems_dir else PROBLEM_SET),
        first=options.subset[0] or 1,
        last=options.subset[1] or 1000,
        problem_ids=options.problem_ids,
        samples=options.num_samples_per_problem,
        pass_at=options.pass_at_k_values,
    )
    if other := put_aside_foreign_results(evaluation.run):
        say(f"note: what another evaluator left as eval_results.json is now {other}", err=True)
    if options.build_cache and options.eval_mode == "local":
        _build_ahead(evaluation, options.num_cpu_workers)
    kernels = evaluation.run.kernel_keys()
    reporter = Reporter()
    with reporter.over(sum(evaluation.selection(kernels).wants(key) for key in kernels)):
        outcome = evaluation.judge(place, reporter.show)
    counts = Counter(row.status.value for row in outcome.result.rows)
    said = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    say(f"{options.run_name}: {len(outcome.added)} judged now; in all {said}")
    say(f"written to {evaluation.run.eval_results_path}")
    waiting = len(outcome.unfinished) + counts[Status.INFRA_ERROR.value]
    if waiting:
        say(f"error: kernels still to judge, or to judge a second time: {waiting}; run it again", err=True)
    return 1 if waiting or outcome.plan.missing_problems else 0


def _build_ahead(evaluation: RunEvaluation, workers: int) -> None:
    """Compile what is to be judged, so many at a time; judging takes it from the folder of builds."""
    require("evaluate", "building ahead")
    kernels = evaluation.sources()
    selection = evaluation.selection(kernels)
    problems = load_problems(evaluation.problem_set, kernels, evaluation.settings.sizes)
    jobs = [
        (evaluation.run.name, Job(key=key, source=source, problem=problems[key.level, key.problem_id]))
        for key, source in kernels.items()
        if selection.wants(key) and (key.level, key.problem_id) in problems
    ]
    with Builder(workers=workers) as builder:
        builds = build_all(builder, jobs, lambda _: None)
    if builds:
        say(summary_table(builds), err=True)


def _place(options: Options) -> Place:
    if options.eval_mode not in ("local", "modal"):
        raise ValueError(f"eval_mode must be local or modal, got {options.eval_mode!r}")
    device = chosen_device(options.device, options.eval_mode)
    gpus = list(range(options.num_gpu_devices)) if device == "cuda" and options.eval_mode == "local" else None
    return open_place(options.eval_mode, device, gpus=gpus)


def _settings(options: Options, device: str) -> Settings:
    return checked(
        Settings(
            profile=cast(Profile, options.profile),
            sizes=sizes_on(device),
            device=device,
            precision=options.precision,
            trials=options.num_correct_trials,
            measure=options.measure_performance,
            timeout_s=float(options.timeout),
            timing_method=options.timing_method,
        )
    )


main = partial(run_script, Options, run)
