"""`generate_samples`: samples a model for one level; KernelBench's options, `kbl generate` behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from leaderboard.commands.generate import run_request
from leaderboard.generate.request import GenerationRequest
from leaderboard.seed_scripts.runner import run_script, say_unused
from leaderboard.texts.say import say


@dataclass(frozen=True, kw_only=True)
class Options:
    """KernelBench's options, level 4 included; below the blank line our own."""

    dataset_src: str
    level: int
    run_name: str
    dataset_name: str = "ScalingIntelligence/KernelBench"
    subset: tuple[int | None, int | None] = (None, None)
    num_workers: int = 64
    api_query_interval: float = 0.0
    server_type: str = "local"
    model_name: str = "default"
    max_tokens: int | None = None
    temperature: float = 0.0
    is_reasoning_model: bool = False
    reasoning_effort: str = "low"
    budget_tokens: int = 0
    runs_dir: str = "runs"
    verbose: bool = False
    store_type: str = "local"
    num_samples: int = 1
    log_prompt: bool = False
    backend: str = "cuda"
    precision: str = "fp32"
    prompt_option: str = "one_shot"
    include_hardware_info: bool = False
    hardware_gpu_name: str | None = None
    custom_prompt_key: str | None = None
    check_kernel: bool = True
    gpu_arch: list[str] = field(default_factory=list)

    base_url: str = ""
    api_key_env: str = ""
    regenerations: int = 3
    turns: int = 1
    device: str = "cuda"
    problems_dir: str | None = None


def run(options: Options) -> int:
    """Draw what is missing of the run."""
    if options.dataset_src not in ("local", "huggingface"):
        raise ValueError(f"dataset_src must be local or huggingface, got {options.dataset_src!r}")
    if options.dataset_src == "huggingface":
        say("note: the problems are those of this checkout, which are the dataset's", err=True)
    known = Options(dataset_src="", level=1, run_name="")
    say_unused(options, known, {"gpu_arch": "kernels are compiled for the device that judges them"})
    if options.include_hardware_info and not options.hardware_gpu_name:
        raise ValueError("include_hardware_info=True needs hardware_gpu_name=…")
    return run_request(lambda: _request(options))


def precision_asked_for(backend: str, precision: str) -> str:
    """Give what kernels are asked for in: as in KernelBench, those in TileLang are not in fp32."""
    return "fp16" if (backend, precision) == ("tilelang", "fp32") else precision


def _request(options: Options) -> GenerationRequest:
    low, high = options.subset
    return GenerationRequest(
        run_name=options.run_name,
        model=options.model_name,
        server=options.server_type,
        base_url=options.base_url,
        api_key_env=options.api_key_env,
        level=[options.level],
        subset=(low, high),
        samples=options.num_samples,
        backend=options.backend,
        precision=precision_asked_for(options.backend, options.precision),
        prompt=options.prompt_option,
        custom_prompt=options.custom_prompt_key or "",
        hardware=options.hardware_gpu_name or "" if options.include_hardware_info else "",
        temperature=None if options.is_reasoning_model else options.temperature,
        max_tokens=options.max_tokens or 0,
        parameter=_reasoning(options),
        turns=options.turns,
        device=options.device,
        regenerations=options.regenerations,
        check=options.check_kernel,
        workers=options.num_workers,
        interval=options.api_query_interval,
        log_prompts=options.log_prompt,
        runs=Path(options.runs_dir),
        problems=Path(options.problems_dir) if options.problems_dir else None,
    )


def _reasoning(options: Options) -> list[str]:
    if not options.is_reasoning_model:
        return []
    if options.budget_tokens:
        return [f'thinking={{"type": "enabled", "budget_tokens": {options.budget_tokens}}}']
    return [f"reasoning_effort={options.reasoning_effort}"]


main = partial(run_script, Options, run)
