"""Is a time shorter than the hardware allows? Such a row waits for a person; never rejected for that."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from kernel_evaluator.machine import figures
from kernel_evaluator.problems.jobs import Settings
from kernel_evaluator.problems.problem_set import Problem, ProblemSet


def below(problem: Problem, settings: Settings, runtime_ms: float) -> dict[str, Any] | None:
    """Give the evidence where `runtime_ms` lies below what the device needs at least; None where it does not.

    Known for the problems of this set at full size, on the GPUs that `figures.json` describes.
    """
    if settings.device != "cuda" or problem.sha256 != _full_size(problem.level, problem.problem_id):
        return None
    gpu = figures.gpu_model(torch.cuda.get_device_name())
    precision: Any = settings.precision
    least = figures.floor_ms(problem.level, problem.problem_id, gpu=gpu, precision=precision)
    if least is None or runtime_ms >= least:
        return None
    return {"violation": "FasterThanPossible", "runtime_ms": runtime_ms, "floor_ms": least, "gpu": gpu}


@cache
def _full_size(level: int, problem_id: int) -> str:
    try:
        return ProblemSet().load(level, problem_id).sha256
    except (FileNotFoundError, KeyError):
        return ""
