"""Runs reference problems once on a device, to see that they fit and give finite numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kernel_evaluator.problems.problem_set import Problem
from kernel_evaluator.proofs.runs import Kinds, dtype_name, execute, leaves

SEED = 42


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One forward call of a reference: what came out, and what it took. `error` is empty where it ran."""

    problem: str
    outputs: Kinds | None = None
    finite: bool | None = None
    seconds: float | None = None
    peak_memory_gb: float | None = None
    error: str = ""


def forward_once(problem: Problem, device: str) -> Forward:
    """Make weights and inputs on the device and call the model once; an error is an answer, not raised."""
    name = f"{problem.level}_{problem.problem_id}"
    try:
        return _forward(problem, device, name)
    except Exception as error:  # noqa: BLE001  # out of memory and all else is what this looks for
        return Forward(problem=name, error=f"{type(error).__name__}: {error}"[:500])
    finally:
        _release(device)


def _forward(problem: Problem, device: str, name: str) -> Forward:
    import torch

    names = execute(problem)
    started = time.perf_counter()
    with torch.no_grad(), torch.device(device):
        torch.manual_seed(SEED)
        model = names["Model"](*names["get_init_inputs"]()).to(device)
        inputs = [_on(value, device) for value in names["get_inputs"]()]
        outputs = leaves(model(*inputs))
        finite = all(bool(_is_finite(output)) for output in outputs)
    return Forward(
        problem=name,
        outputs=[[list(output.shape), dtype_name(output)] for output in outputs],
        finite=finite,
        seconds=round(time.perf_counter() - started, 3),
        peak_memory_gb=_peak_memory_gb(device),
    )


def _is_finite(output: Any) -> Any:
    """Look at the tensor in parts: a mask of 16 GiB is memory that the problem itself does not need."""
    if not output.is_floating_point():
        return True
    flat = output.reshape(-1)
    return all(part.isfinite().all().item() for part in flat.split(1 << 26))


def _on(value: Any, device: str) -> Any:
    return value.to(device) if hasattr(value, "to") else value


def _peak_memory_gb(device: str) -> float | None:
    import torch

    return round(torch.cuda.max_memory_allocated() / 1e9, 3) if device == "cuda" else None


def _release(device: str) -> None:
    if device == "cuda":
        import gc

        import torch

        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
