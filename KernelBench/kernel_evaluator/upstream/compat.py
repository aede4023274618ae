"""The profile `compat`: KernelBench's seeds, trials, tolerances and timing, for figures to compare with its.

Kept: seed 42 for weights and for the seeds of trials, weights and inputs drawn on the CPU and moved, plain
`allclose`, every trial run and every one needed, single calls timed on one set of inputs, means.
Not kept: the candidate has a process and a namespace of its own, integer inputs stay integers, each forward
is reseeded, and nothing records gradients. Times are the candidate's own claim: no board takes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from kernel_evaluator.candidate.frames import Op, Reply
from kernel_evaluator.candidate.processes import RunFailed
from kernel_evaluator.judging.hearing import Hearing, Ruled
from kernel_evaluator.numerics import compare
from kernel_evaluator.records.rows import Status, Timing
from kernel_evaluator.stand.stand import Stand
from kernel_evaluator.timing import pairing

SEED = 42
WARMUPS = 3
TIMED_CALLS = 100
_CHUNK = 1 << 26
_MAX_TIMES = 1_000_000


@dataclass
class _Differences:
    """What KernelBench notes of each failing trial: the largest and the mean difference."""

    largest: list[str] = field(default_factory=list)
    mean: list[str] = field(default_factory=list)


def hear(hearing: Hearing) -> dict[str, Any]:
    """Judge a candidate as KernelBench does; give the row's fields. Raises Ruled where it fails."""
    stand = hearing.stand
    if stand.weights.seed != SEED:
        stand.build_reference("plain", "cpu", SEED)
    hearing.ask(Op.LOAD, source=hearing.job.source, class_name="ModelNew")
    hearing.phase = Status.RUNTIME_ERROR
    hearing.side = stand.admit(hearing.process, hearing.left_s())
    hearing.ask(Op.CONSTRUCT, **stand.weights.construction())
    _run_trials(hearing)
    fields: dict[str, Any] = {"status": Status.CORRECT}
    if stand.settings.measure:
        with hearing.quiet():
            fields |= _timed(hearing) | {"peak_memory_gb": stand.device.used_gb()}
    return fields


def trial_seeds(count: int) -> list[int]:
    """Give the seeds of the trials: drawn in order from torch's own generator, itself seeded with 42."""
    generator = torch.Generator().manual_seed(SEED)
    return [int(torch.randint(0, 2**32 - 1, (1,), generator=generator).item()) for _ in range(count)]


def _run_trials(hearing: Hearing) -> None:
    """Run every trial; all must pass."""
    differences = _Differences()
    for seed in trial_seeds(hearing.stand.settings.trials):
        if _trial(hearing, seed, differences):
            hearing.passed += 1
    if differences.largest:
        evidence = {"max_difference": differences.largest, "avg_difference": differences.mean}
        raise Ruled(Status.MISMATCH, "WrongOutput", "Output mismatch", evidence)


def _trial(hearing: Hearing, seed: int, differences: _Differences) -> bool:
    stand, side = hearing.stand, hearing.require_side()
    _put_inputs(stand, seed)
    expected = stand.expect(0, seed)
    side.buffers["inputs"].publish()
    stand.device.settle()
    reply = hearing.ask(Op.CALL, at=0, seed=seed, poison=0, strict=False)
    _check_claims(stand, reply)
    side.deliver([0], [stand.outputs.slot(0)], hearing.left_s())
    found = stand.outputs.read(side)
    hearing.worst = max(hearing.worst, stand.worst(expected, found, "plain"))
    tolerance = compare.TOLERANCES[stand.settings.precision]
    if all(_is_close(right, given, tolerance) for right, given in zip(expected, found, strict=True)):
        return True
    largest, mean = _difference(expected, found)
    differences.largest.append(f"{largest:.6f}")
    differences.mean.append(f"{mean:.6f}")
    return False


def _put_inputs(stand: Stand, seed: int) -> None:
    """Draw inputs on the CPU, as KernelBench does, and move them."""
    torch.manual_seed(seed)
    stand.inputs.put(0, stand.source.module.get_inputs)


def _check_claims(stand: Stand, reply: Reply) -> None:
    """KernelBench looks at the shape; a dtype or device that differs is an error inside its comparison."""
    if reply.text != stand.outputs.structure or len(reply.leaves) != len(stand.outputs.leaves):
        message = f"the output's structure must be {stand.outputs.structure}, got {reply.text[:200]}"
        raise Ruled(Status.RUNTIME_ERROR, "WrongStructure", message)
    for claim, leaf in zip(reply.leaves, stand.outputs.leaves, strict=True):
        if claim.shape != leaf.shape:
            message = (
                f"Output shape mismatch: Expected {torch.Size(leaf.shape)}, got {torch.Size(claim.shape)}"
            )
            raise Ruled(Status.MISMATCH, "WrongShape", message)
        if (claim.dtype, claim.device) != (leaf.dtype, leaf.device):
            message = f"expected {leaf.dtype} on {leaf.device}, got {claim.dtype} on {claim.device}"
            raise Ruled(Status.RUNTIME_ERROR, "WrongType", message)


def _is_close(expected: torch.Tensor, found: torch.Tensor, tolerance: float) -> bool:
    pieces = zip(_pieces(expected), _pieces(found), strict=True)
    return all(torch.allclose(right, given, atol=tolerance, rtol=tolerance) for right, given in pieces)


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cut a large output up, to bound the memory that comparing it takes."""
    return torch.split(tensor.reshape(-1), _CHUNK)


def _difference(expected: list[torch.Tensor], found: list[torch.Tensor]) -> tuple[float, float]:
    """The largest and the mean absolute difference over all outputs."""
    largest, total, count = 0.0, 0.0, 0
    for right, given in zip(expected, found, strict=True):
        for one, other in zip(_pieces(right), _pieces(given), strict=True):
            difference = (one.double() - other.double()).abs()
            largest = max(largest, float(difference.max().item()))
            total += float(difference.sum().item())
            count += difference.numel()
    return (math.nan if math.isnan(total) else largest), total / count


def _timed(hearing: Hearing) -> dict[str, Any]:
    """Time single calls of the candidate, then of the reference, on the same inputs."""
    stand = hearing.stand
    _put_inputs(stand, SEED)
    stand.publish_inputs()
    asked = {"at": 0, "method": stand.settings.timing_method, "warmups": WARMUPS, "trials": TIMED_CALLS}
    runtime = pairing.timing(_times(hearing.ask(Op.TIME, **asked).text))
    reference = pairing.timing(_times(stand.ask_reference(Op.TIME, **asked).text))
    speedup = reference.mean / runtime.mean
    spread = 1.96 * math.hypot(_relative_error(reference), _relative_error(runtime))
    return {
        "runtime_ms": runtime,
        "reference_ms": reference,
        "speedup": speedup,
        "speedup_ci95": (speedup * max(0.0, 1 - spread), speedup * (1 + spread)),
    }


def _relative_error(timing: Timing) -> float:
    """The standard error of the mean, as a share of it."""
    return timing.std / math.sqrt(timing.n) / timing.mean


def _times(text: str) -> list[float]:
    """Read the milliseconds that a process says; what are no times breaks the protocol."""
    try:
        times = [float(word) for word in text.split(maxsplit=_MAX_TIMES)]
    except ValueError:
        times = []
    if not times or not all(0 < ms < math.inf for ms in times):
        raise RunFailed("ProtocolViolation", f"no times in milliseconds: {text[:200]!r}")
    return times
