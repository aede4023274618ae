"""`generate_and_eval_single_sample`: samples a model for one problem and judges the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from leaderboard.seed_scripts import generate_samples, run_and_check
from leaderboard.seed_scripts.runner import run_script, say_unused
from leaderboard.texts.say import say

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's options; below the blank line our own."""

    dataset_src: str
    level: int
    problem_id: int
    dataset_name: str = "ScalingIntelligence/KernelBench"
    eval_mode: str = "local"
    gpu: str = "L40S"
    gpu_arch: list[str] = field(default_factory=lambda: ["Ada"])
    precision: str = "fp32"
    server_type: str = "local"
    model_name: str = "default"
    max_tokens: int | None = None
    temperature: float = 0.0
    is_reasoning_model: bool = False
    reasoning_effort: str = "low"
    budget_tokens: int = 0
    logdir: str = "runs"
    verbose: bool = False
    log: bool = False
    log_prompt: bool = False
    log_generated_kernel: bool = False
    log_eval_result: bool = False
    backend: str = "cuda"
    timing_method: str = "cuda_event"
    check_kernel: bool = True
    prompt_option: str = "one_shot"
    include_hardware_info: bool = False
    hardware_gpu_name: str | None = None
    custom_prompt_key: str | None = None

    run_name: str = "single_samples"
    base_url: str = ""
    api_key_env: str = ""
    device: str = "auto"


def run(options: Options) -> int:
    """Draw one sample, where the run has none yet, and judge it; exit status 0 where it is correct."""
    known = Options(dataset_src="", level=1, problem_id=1)
    logs = dict.fromkeys(
        ("log_generated_kernel", "log_eval_result"), "kernels are kept, verdicts are printed"
    )
    say_unused(options, known, logs)
    drawn = generate_samples.run(
        _same(
            generate_samples.Options,
            options,
            subset=(options.problem_id, options.problem_id),
            runs_dir=options.logdir,
            log_prompt=options.log_prompt or options.log,
            gpu_arch=[],
            device="cuda",
        )
    )
    name = f"level_{options.level}_problem_{options.problem_id}_sample_0_kernel.py"
    path = Path(options.logdir, options.run_name, name)
    if drawn != 0 or not path.exists():
        return drawn or 1
    say(f"kernel: {path}")
    return run_and_check.run(
        _same(
            run_and_check.Options,
            options,
            ref_origin="kernelbench",
            kernel_src_path=str(path),
            precision=generate_samples.precision_asked_for(options.backend, options.precision),
        )
    )


def _same(kind: type[T], options: Options, **others: Any) -> T:
    """Another script's options, with what both have."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    shared = {each.name: getattr(options, each.name) for each in fields(options) if each.name in names}
    return kind(**{**shared, **others})


main = partial(run_script, Options, run)
