"""The trials of what a candidate computes: plain ones, the panel of distributions, and affine weights.

Compares what both sides give on the same inputs and raises Ruled where they differ. Never times anything.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import torch

from kernelbench import compare, rounding
from kernelbench.bench import Bench
from kernelbench.frames import Op, Reply
from kernelbench.hearing import Hearing, Ruled
from kernelbench.rows import Status


def plain_trials(hearing: Hearing) -> None:
    """The plain trials; a candidate with its own layout of weights may try again with CPU-drawn ones."""
    bench = hearing.bench
    try:
        _one_pass(hearing)
    except Ruled as ruled:
        if ruled.status is not Status.MISMATCH or hearing.alignment != "unlike" or bench.place == "cpu":
            raise
        bench.build_reference("plain", "cpu")
        hearing.ask(Op.CONSTRUCT, **bench.construction())
        hearing.alignment = bench.align(hearing.require_side(), hearing.left_s())
        try:
            _one_pass(hearing)
        except Ruled as again:
            again.message += (
                "; its parameters are not named and shaped as the reference's: no weights were copied"
            )
            raise


def _one_pass(hearing: Hearing) -> None:
    hearing.passed, hearing.worst = 0, 0.0
    failed: Ruled | None = None
    for _ in range(hearing.bench.settings.trials):
        try:
            _trial(hearing, "plain", secrets.randbits(60))
            hearing.passed += 1
        except Ruled as ruled:
            failed = failed or ruled
            if ruled.name != "WrongOutput":
                break
    if failed is not None:
        raise failed


def panel_trial(hearing: Hearing, distribution: str) -> None:
    """One trial with inputs of another kind; what is wrong there alone is rejected."""
    bench = hearing.bench
    if distribution in bench.skipped:
        return
    try:
        _trial(hearing, distribution, secrets.randbits(60))
    except Ruled as ruled:
        if ruled.status is Status.MISMATCH:
            raise Ruled(Status.REJECTED, ruled.name, ruled.message, ruled.evidence) from ruled
        raise


def skips(bench: Bench, distribution: str, expected: list[torch.Tensor]) -> bool:
    """Whether a distribution says nothing, since on it the reference's own outputs are not finite."""
    if distribution not in ("plain", "upstream") and any(compare.has_non_finite(t) for t in expected):
        bench.skipped.add(distribution)
    return distribution in bench.skipped


def affine_trial(hearing: Hearing) -> None:
    """One trial with scales that are not one and biases that are not zero."""
    bench = hearing.bench
    bench.build_reference("affine", bench.place)
    hearing.ask(Op.CONSTRUCT, **bench.construction())
    alignment = bench.align(hearing.require_side(), hearing.left_s())
    try:
        panel_trial(hearing, "upstream")
    except Ruled as ruled:
        if alignment != "unlike" or ruled.name != "WrongOutput":
            raise
        message = (
            f"its parameters are not the reference's by name or order, and with other weights {ruled.message}"
        )
        raise Ruled(Status.QUARANTINED, "WeightsNotShared", message, ruled.evidence) from ruled


def _trial(hearing: Hearing, distribution: str, seed: int) -> None:
    """One forward call of each side on the same fresh inputs."""
    bench, side = hearing.bench, hearing.require_side()
    bench.put(0, lambda: bench.source.draw(seed, distribution))
    call_seed = secrets.randbits(60)
    expected = bench.expect(0, call_seed)
    if skips(bench, distribution, expected):
        return
    side.buffers["inputs"].publish()
    bench.settle()
    poison = 0 if "poison" in bench.settings.switched_off else max(bench.output_bytes, 1 << 20)
    reply = hearing.ask(Op.CALL, at=0, seed=call_seed, poison=poison, strict=False)
    facts = {"distribution": distribution, "seed": seed, "call_seed": call_seed}
    facts |= bench.weight_facts()
    _check_claims(bench, reply, facts)
    if not bench.mutates and bench.inputs_differ(0):
        raise Ruled(
            Status.REJECTED, "InputChanged", "forward changed its inputs", {"violation": "input", **facts}
        )
    bench.scramble(side)
    side.deliver([0], [bench.slot(0)], hearing.left_s())
    check_values(hearing, expected, bench.read_outputs(side), distribution, facts)


def check_values(
    hearing: Hearing,
    expected: list[torch.Tensor],
    found: list[torch.Tensor],
    distribution: str,
    facts: dict[str, Any],
) -> None:
    """Compare outputs; where the first tolerance fails, ask what rounding alone does before ruling."""
    bench = hearing.bench
    is_kept = False
    for at, given in enumerate(found):
        right = expected[at]
        tolerance = bench.tolerance(right, distribution)
        result = compare.compare(right, given, tolerance)
        scale = 1.0
        if not result.passes:
            if not is_kept:
                # To weigh rounding the reference runs again, and gives other outputs in their place.
                expected, is_kept = [tensor.clone() for tensor in expected], True
            for seed in (None, facts["seed"]):
                scale = max(1.0, compare.FLOOR_FACTOR * rounding.floor(bench, distribution, seed))
                result = compare.compare(expected[at], given, replace(tolerance, scale=scale))
                if result.passes:
                    break
        hearing.worst = max(hearing.worst, result.worst)
        if not result.passes:
            evidence = {
                "counter_example": {
                    **facts,
                    "output": at,
                    "index": result.index,
                    "expected": repr(result.expected),
                    "found": repr(result.found),
                    "error_over_tolerance": repr(result.worst),
                    "absolute": tolerance.absolute * scale,
                    "relative": tolerance.relative * scale,
                }
            }
            message = (
                f"output {at} at flat index {result.index}: expected {result.expected:.7g}, "
                f"found {result.found:.7g} ({distribution} inputs, {result.worst:.3g} times the tolerance)"
            )
            raise Ruled(Status.MISMATCH, "WrongOutput", message, evidence)


def _check_claims(bench: Bench, reply: Reply, facts: dict[str, Any]) -> None:
    if "format" in bench.settings.switched_off:
        return
    if reply.text != bench.structure or len(reply.leaves) != len(bench.output_leaves):
        message = f"the output's structure must be {bench.structure}, got {reply.text[:200]}"
        raise Ruled(Status.MISMATCH, "WrongStructure", message)
    for at, (claim, leaf) in enumerate(zip(reply.leaves, bench.output_leaves, strict=True)):
        for rule, want, got in (
            ("is a plain torch.Tensor", True, claim.is_plain_tensor),
            ("shape", leaf.shape, claim.shape),
            ("dtype", leaf.dtype, claim.dtype),
            ("device", leaf.device, claim.device),
            ("has elements that do not overlap", True, claim.is_dense),
        ):
            if want != got:
                message = f"output {at}: {rule} must be {want}, got {got}"
                raise Ruled(Status.MISMATCH, "WrongType", message, {"violation": "type", **facts})
