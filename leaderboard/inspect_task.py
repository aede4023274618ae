"""The benchmark as an `inspect_ai` task, scored by our evaluator on this machine's devices.

    inspect eval leaderboard/kernelbench --model … -T splits=level_1 -T backend=triton

Needs the extra `inspect`. Inspect talks to the model; this module writes prompts, asks again where an answer
cannot be a kernel, and hands kernels to the evaluator's own processes.
"""

from __future__ import annotations

import difflib
import inspect
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from kernel_evaluator.building.builder import CACHE_VARIABLE
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import ProblemSet
from kernel_evaluator.records.rows import Row, Status
from kernel_evaluator.upstream.files import is_compiled

from leaderboard.generate.looking import Looking, asking_again
from leaderboard.prompts import PromptOptions
from leaderboard.prompts.shown import shown
from leaderboard.serve.judgements import Judgement, Judgements
from leaderboard.serve.workers import WorkerDevice, Workers
from leaderboard.stages.checked import checked, chosen_problems, reductions, sizes_on
from leaderboard.stages.engines import chosen_device, visible_gpus
from leaderboard.texts.say import say

KERNEL = "kernel"
POLL_S = 0.1
NUM_PERF_TRIALS = 100


@task
def kernelbench(  # noqa: PLR0913, PLR0917  # one option a choice, by name with -T
    splits: str | list[str] = "level_1,level_2,level_3",
    problem_ids: str | int | list[int] | None = None,
    limit: int | None = None,
    option: str = "one_shot",
    backend: str = "cuda",
    precision: str = "fp32",
    include_hardware: bool = False,
    gpu_name: str = "H100",
    check_kernel: bool = True,
    num_correct_trials: int = 5,
    num_perf_trials: int = NUM_PERF_TRIALS,
    measure_performance: bool = True,
    timing_method: str = "cuda_event",
    profile: Literal["ranked", "compat"] = "ranked",
    max_regenerations: int = 10,
    p: float = 1.0,
    temperature: float = 0.0,
    timeout_s: float = 180.0,
    device: str | int = "auto",
    build_dir: str | None = None,
    verbose: bool = False,
    **unknown: Any,
) -> Task:
    """Build the task: one sample a problem, scored on being compiled, correct, and faster than `p` times.

    Options that the task of inspect_evals has too have its names and defaults. `splits` are levels
    (`level_1` to `level_4`), `problem_ids` ids in them; more samples are epochs. `device` is cuda, cpu (at
    reduced sizes), auto, or one GPU by its index. `build_dir` is the folder of finished builds; `verbose`
    says each verdict on standard error too. `timing_method` is KernelBench's clock, for `profile=compat`; the
    board's own, `ranked`, times kernel and reference in turns until the interval is tight, so that
    `num_perf_trials` decides nothing. Raises ValueError for an option or a GPU that there is not.
    """
    _refuse(unknown)
    _refuse_below({"p": (p, 0), "limit": (limit, 1), "max_regenerations": (max_regenerations, 0)})
    if num_perf_trials != NUM_PERF_TRIALS:
        why = "timing goes on until its interval is tight, and compat times a hundred calls"
        say(f"note: num_perf_trials changes nothing: {why}", err=True)
    chosen, gpus = _device(device)
    prompt = PromptOptions(
        backend=backend, option=option, precision=precision, gpu_name=gpu_name if include_hardware else None
    )
    settings = checked(
        Settings(
            profile=profile,
            timing_method=timing_method,
            sizes=sizes_on(chosen),
            device=chosen,
            precision=precision,
            trials=num_correct_trials,
            measure=measure_performance,
            timeout_s=timeout_s,
        )
    )
    return Task(
        dataset=_dataset(_words(splits), _numbers(problem_ids), prompt)[:limit],
        solver=[ask_for_kernel(backend, precision, max_regenerations, check_kernel)],
        config=GenerateConfig(temperature=temperature),
        scorer=judged(settings, p, gpus, build_dir, verbose=verbose),
        version=1,
        metadata={"p": p, "backend": backend, "precision": precision},
    )


def _refuse(unknown: Mapping[str, Any]) -> None:
    """Say of options that there are not which ones may have been meant: Inspect itself would only warn."""
    known = [name for name in inspect.signature(kernelbench).parameters if name != "unknown"]
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise ValueError(f"kernelbench has no option {name!r}; {meant}")


def _refuse_below(numbers: Mapping[str, tuple[float | None, int]]) -> None:
    """Refuse a number below what makes sense, and what is none; `None` leaves the choice open."""
    for name, (value, least) in numbers.items():
        if value is not None and not least <= value < math.inf:
            raise ValueError(f"{name} must be {least} or more, got {value}")


def _device(named: str | int) -> tuple[str, tuple[int, ...]]:
    """Tell the device, and which of its GPUs: all that can be seen, or the one whose index is given."""
    index = str(named).removeprefix("cuda:")
    if not index.isdecimal():
        chosen = chosen_device(str(named))
        return chosen, tuple(range(len(visible_gpus()))) if chosen == "cuda" else ()
    seen = len(visible_gpus())
    if int(index) >= seen:
        raise ValueError(f"device={named}: there is no such GPU here, of {seen} that can be seen")
    return "cuda", (int(index),)


@solver
def ask_for_kernel(
    backend: str = "cuda", precision: str = "fp32", regenerations: int = 10, check_kernel: bool = True
) -> Solver:
    """Ask for a kernel, and again where the answer cannot be one or the static checker objects."""
    looking = Looking(backend=backend, precision=precision, check_kernel=check_kernel)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for attempt in range(regenerations + 1):
            state = await generate(state)
            look = looking.at(state.output.completion)
            if look.code is not None:
                state.store.set(KERNEL, look.code)
            if not look.complaint or attempt == regenerations:
                break
            state.messages.append(ChatMessageUser(content=asking_again(look.complaint)))
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def judged(
    settings: Settings,
    p: float = 1.0,
    gpus: Sequence[int] = (),
    build_dir: str | None = None,
    *,
    verbose: bool = False,
) -> Scorer:
    """Score 1 or 0 for compiled, correct, and correct with a speedup above `p`; keep the row as metadata.

    Where the machinery failed, each is NaN: what Inspect counts as not scored, in no metric.
    """

    async def score(state: TaskState, target: Target) -> Score:
        source = state.store.get(KERNEL)
        if source is None:
            return _score(None, p, answer="", explanation="no answer held a complete code block")
        queue = _queue(tuple(gpus), build_dir)
        row = await _judge(queue, state.metadata["level"], state.metadata["problem_id"], source, settings)
        why = f"{row.failure.name}: {row.failure.message}" if row.failure else ""
        speed = f"speedup {row.speedup:.3f}x" if row.speedup is not None else ""
        explanation = " ".join([row.status.value, speed, why]).strip()
        if verbose:
            say(f"{state.sample_id}: {explanation}", err=True)
        return _score(row, p, answer=source, explanation=explanation)

    return score


def _score(row: Row | None, p: float, *, answer: str, explanation: str) -> Score:
    fast = row is not None and row.is_correct and row.speedup is not None and row.speedup > p
    holds = {
        "compiled": row is not None and is_compiled(row),
        "correct": row is not None and row.is_correct,
        f"fast_{p:g}": fast,
    }
    is_lost = row is not None and row.status is Status.INFRA_ERROR
    return Score(
        value={name: math.nan if is_lost else float(each) for name, each in holds.items()},
        answer=answer,
        explanation=explanation,
        metadata={"row": row.to_json()} if row else {},
    )


async def _judge(queue: Judgements, level: int, problem_id: int, source: str, settings: Settings) -> Row:
    """Queue the kernel with those of other samples and wait; batches share the start of a judging process."""
    problem = ProblemSet().load(level, problem_id).reduced(reductions(settings.sizes))
    item = Judgement(id=uuid.uuid4().hex, problem=problem, source=source, settings=settings)
    queue.add(item)
    while not item.is_finished:
        await anyio.sleep(POLL_S)
    return Row.from_json((item.verdict or {})["row"])


@cache
def _queue(gpus: tuple[int, ...], build_dir: str | None) -> Judgements:
    """Start this process's workers once: one a GPU, or one for the CPU. They end with the process."""
    if build_dir:
        os.environ[CACHE_VARIABLE] = str(Path(build_dir).resolve())  # what workers start from
    judgements = Judgements(max_queued=1_000_000, max_kept=1_000)
    devices = [WorkerDevice(name=f"gpu{index}", gpus=(index,)) for index in gpus]
    Workers(judgements, devices or [WorkerDevice(name="cpu", gpus=None)]).start()
    return judgements


def _dataset(splits: list[str], problem_ids: list[int], prompt: PromptOptions) -> MemoryDataset:
    problems = chosen_problems((int(split.removeprefix("level_")) for split in splits), problem_ids)
    samples = [
        Sample(
            id=f"level_{problem.level}_problem_{problem.problem_id}",
            input=prompt.render(shown(problem)),
            metadata={"level": problem.level, "problem_id": problem.problem_id, "name": problem.name},
        )
        for problem in problems
    ]
    return MemoryDataset(samples, name=f"kernelbench_{'_'.join(splits)}")


def _words(value: str | list[str]) -> list[str]:
    return value.split(",") if isinstance(value, str) else value


def _numbers(value: Any) -> list[int]:
    if value is None:
        return []
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return [int(item) for item in listed]
