"""How six ways of taking memory anew change a model's time: one process, ten draws each, milliseconds.

    python benchmarks/draws.py > benchmarks/results/draws-H200.txt

A line a way: V0 empties the allocator's cache; V1 and V2 also hold a block of up to 256 MB or 4 GB beside; V5
takes all that is needed in one piece; V6 and V7 do that beside such blocks. Decision 13 rests on it.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "KernelBench")]

import torch  # noqa: E402
from kernel_evaluator.problems.inputs import load_module  # noqa: E402
from kernel_evaluator.problems.problem_set import ProblemSet  # noqa: E402

PROBLEMS = {(1, 68): 10, (1, 61): 10, (2, 61): 10, (2, 77): 10, (1, 58): 8}
BATCH_MS = 6
BLOCK = 2 << 20
FLUSH_BYTES = 256 << 20

Way = Callable[[int], list[torch.Tensor]]


def main() -> None:
    """Print what every way of drawing gives on every problem."""
    torch.set_grad_enabled(False)
    for (level, problem_id), draws in PROBLEMS.items():
        observe(level, problem_id, draws)


def observe(level: int, problem_id: int, draws: int) -> None:
    """Time a reference after so many draws of each way."""
    torch.cuda.empty_cache()
    module = load_module(ProblemSet().load(level, problem_id))
    with torch.device("cuda"):
        model = module.Model(*module.get_init_inputs()).cuda()
        inputs = [v.cuda() if isinstance(v, torch.Tensor) else v for v in module.get_inputs()]
    before = torch.cuda.memory_reserved()
    _time(model, inputs, 1)
    calls = max(1, int(BATCH_MS / _time(model, inputs, 1)))
    _time(model, inputs, calls)
    need = torch.cuda.memory_reserved() - before
    print(level, problem_id, "n", calls, "need GB", round(need / 2**30, 2), flush=True)
    for name, way in _WAYS.items():
        times = []
        for _ in range(draws):
            gc.collect()
            torch.cuda.empty_cache()
            held = way(need)
            _time(model, inputs, calls)
            times.append(round(min(_time(model, inputs, calls) for _ in range(2)), 3))
            reserved = round(torch.cuda.memory_reserved() / 2**30, 2)
            del held
        print("  ", name, *times, "reserved", reserved, flush=True)


def _beside(most: int, in_one_piece: bool, need: int) -> list[torch.Tensor]:
    held = [_block(random.randint(1, most) * BLOCK)] if most else []
    if in_one_piece:
        _block(need)
    return held


def _block(nbytes: int) -> torch.Tensor:
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def _time(model: torch.nn.Module, inputs: list[Any], calls: int) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    _block(FLUSH_BYTES).zero_()
    torch.cuda.synchronize()
    before.record()
    outputs = [model(*inputs) for _ in range(calls)]
    after.record()
    torch.cuda.synchronize()
    del outputs
    return float(before.elapsed_time(after)) / calls


_WAYS: dict[str, Way] = {
    "V0": partial(_beside, 0, False),
    "V1": partial(_beside, 128, False),
    "V2": partial(_beside, 2048, False),
    "V5": partial(_beside, 0, True),
    "V6": partial(_beside, 128, True),
    "V7": partial(_beside, 2048, True),
}

if __name__ == "__main__":
    main()
