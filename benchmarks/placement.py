"""How much it changes a model's time where large blocks lie in the device's memory: one process, memory anew.

    python benchmarks/placement.py > benchmarks/results/placement-H200.jsonl

A line a process: milliseconds of the reference at first and again, after each of six draws of the allocator's
memory, with six other copies of the inputs, three other models, and zeros as inputs;
then the longest kernels. Four processes a problem. Decision 13 rests on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench")]

import torch  # noqa: E402
from kernel_evaluator.problems.inputs import load_module  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet  # noqa: E402

PROBLEMS = ((2, 77), (1, 68), (2, 61))
PROCESSES = 4


def main() -> int:
    """Run every process, or be one of them."""
    if len(sys.argv) > 1:
        level, problem_id, nth = map(int, sys.argv[1:4])
        print(json.dumps(observe(level, problem_id, nth)), flush=True)
        return 0
    for level, problem_id in PROBLEMS:
        for nth in range(PROCESSES):
            command = [sys.executable, __file__, str(level), str(problem_id), str(nth)]
            subprocess.run(command, timeout=120, check=True)
    return 0


def observe(level: int, problem_id: int, nth: int) -> dict[str, Any]:
    """Time the reference under one change at a time; milliseconds."""
    torch.set_grad_enabled(False)
    module = load_module(ProblemSet().load(level, problem_id))
    with torch.device("cuda"):
        model = module.Model(*module.get_init_inputs()).cuda()
    inputs = [_on_device(value, torch.Tensor.cuda) for value in module.get_inputs()]
    found: dict[str, Any] = {"p": f"{level}/{problem_id}", "k": nth}
    found |= {"first": _median_ms(model, inputs), "again": _median_ms(model, inputs)}
    found["redraw_pool"] = [_after_a_draw(model, inputs) for _ in range(6)]
    copies = []
    for _ in range(6):
        copies.append(inputs)
        inputs = [_on_device(value, torch.Tensor.clone) for value in inputs]
        found.setdefault("redraw_inputs", []).append(_median_ms(model, inputs))
        copies = copies[-2:]
    for _ in range(3):
        model = _anew(module)
        found.setdefault("redraw_model", []).append(_median_ms(model, inputs))
    found["zeros"] = _median_ms(model, [_on_device(value, torch.zeros_like) for value in inputs])
    found["prof"] = _longest_kernels(model, inputs)
    found["after_prof"] = _median_ms(model, inputs)
    return found


def _on_device(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return change(value) if isinstance(value, torch.Tensor) else value


def _anew(module: ModuleType) -> torch.nn.Module:
    model: torch.nn.Module = module.Model(*module.get_init_inputs()).cuda()
    return model


def _after_a_draw(model: torch.nn.Module, inputs: list[Any]) -> float:
    torch.cuda.empty_cache()
    return _median_ms(model, inputs)


def _median_ms(model: torch.nn.Module, inputs: list[Any]) -> float:
    times = []
    for _ in range(6):
        before, after = _event(), _event()
        before.record()
        model(*inputs)
        after.record()
        torch.cuda.synchronize()
        times.append(float(before.elapsed_time(after)))
    return round(sorted(times[2:])[2], 3)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _longest_kernels(model: torch.nn.Module, inputs: list[Any]) -> list[tuple[str, float]]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        model(*inputs)
        torch.cuda.synchronize()
    events = sorted(profile.key_averages(), key=lambda event: -event.self_device_time_total)
    return [(event.key[:90], round(event.self_device_time_total / 1e3, 3)) for event in events[:6]]


if __name__ == "__main__":
    sys.exit(main())
