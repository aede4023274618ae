"""The trials of what a candidate computes: plain ones, the panel of distributions, and affine weights.

Compares what both sides give on the same inputs and raises Ruled where they differ. Never times anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import torch

from kernel_evaluator import secret_draws
from kernel_evaluator.candidate.frames import Op, Reply
from kernel_evaluator.candidate.processes import RunFailed
from kernel_evaluator.judging.hearing import Hearing, Ruled
from kernel_evaluator.numerics import compare
from kernel_evaluator.numerics.allowances import Allowance, weigh
from kernel_evaluator.records.rows import Status
from kernel_evaluator.stand.stand import Stand

SLOW_TRIALS = 2
"""So many trials a slow kernel has before it is timed; the first may compile."""

NEAR = 10.0
"""An error does not grow from the tolerance to so many times it: from one draw of usual inputs to the next,
nor where things are added up in another order."""


INPUT_CHANGED, OUTPUT_IN_INPUT = "InputChanged", "OutputInInput"


def plain_trials(hearing: Hearing) -> None:
    """The plain trials; a candidate with its own layout of weights may try again with CPU-drawn ones."""
    stand = hearing.stand
    try:
        _one_pass(hearing)
    except Ruled as ruled:
        if (
            ruled.status is not Status.MISMATCH
            or hearing.alignment != "unlike"
            or stand.weights.drawn_on == "cpu"
        ):
            raise
        ruled.let_go()
        stand.build_reference("plain", "cpu")
        hearing.ask(Op.CONSTRUCT, **stand.weights.construction())
        hearing.alignment = stand.weights.align(hearing.require_side(), hearing.left_s())
        try:
            _one_pass(hearing)
        except Ruled as again:
            again.message += (
                "; its parameters are not named and shaped as the reference's: no weights were copied"
            )
            raise


def _one_pass(hearing: Hearing) -> None:
    """Trials until one fails, or a slow kernel has had its few."""
    hearing.passed, hearing.worst = 0, 0.0
    for _ in range(hearing.stand.settings.trials):
        trial(hearing, "plain", secret_draws.seed())
        hearing.passed += 1
        if _is_surely_slow(hearing):
            break


def _is_surely_slow(hearing: Hearing) -> bool:
    """Whether it was slow so often that it is not for compiling."""
    return hearing.calls >= SLOW_TRIALS and hearing.is_slow


def panel_trial(hearing: Hearing, distribution: str) -> None:
    """One trial with inputs of another kind, or under the panel's tolerance; wrong there alone is fragile."""
    stand = hearing.stand
    if stand.says_nothing(distribution):
        return
    try:
        trial(hearing, distribution, secret_draws.seed())
    except Ruled as ruled:
        if ruled.status is Status.MISMATCH and ruled.name == "WrongOutput":
            raise _fragile(ruled) from ruled
        raise


def weigh_timed(hearing: Hearing, timed: Ruled) -> Ruled:
    """What a wrong output of a timed call means: the kernel is asked again off the clock, on the very inputs.

    Rejected is what no honest kernel does: it is far off, and right when asked again, or on usual inputs, on
    which it was right in the trials. Else it is fragile: one that adds up in another order each time may be
    within the tolerance the next time.
    """
    evidence = timed.evidence or {}
    example = evidence["counter_example"]
    if hearing.stand.manners.is_random:
        again: Ruled | None = timed  # the numbers that it drew cannot be had again
    else:
        again = _asked(hearing, example["distribution"], example["seed"], timed)
    if again is None and _error(timed) <= NEAR:
        return _fragile(timed)
    usual: Ruled | None = timed
    if again and hearing.was_spared:
        usual = _asked(hearing, "plain", secret_draws.seed(), None, variant="plain")  # as it was tried before
    elif again and example["distribution"] not in ("plain", "upstream"):
        usual = _asked(hearing, "upstream", secret_draws.seed(), None)
    if again and (usual is None or _error(usual) <= NEAR):
        return _fragile(again)
    asked_again = "wrong" if again else "right"
    message = f"an output of a timed run is wrong, and {asked_again} when asked for again: {timed.message}"
    return Ruled(Status.REJECTED, "WrongTimedOutput", message, {**evidence, "asked_again": asked_again})


def _asked(
    hearing: Hearing, distribution: str, seed: int, otherwise: Ruled | None, *, variant: str = ""
) -> Ruled | None:
    """What is wrong with another trial: none where it is right, and `otherwise` where there is no output.

    With weights of another `variant` where one is named. Raises Ruled where it shows what made the output
    wrong: its memory is an input's.
    """
    try:
        if variant:
            _take_weights(hearing, variant)
        trial(hearing, distribution, seed)
    except Ruled as ruled:
        if ruled.name in (INPUT_CHANGED, OUTPUT_IN_INPUT):
            raise
        return ruled.let_go() if ruled.name == "WrongOutput" else otherwise
    except RunFailed:
        return otherwise
    return None


def _error(wrong: Ruled) -> float:
    return float((wrong.evidence or {})["counter_example"]["error_over_tolerance"])


def _fragile(wrong: Ruled) -> Ruled:
    message = f"right in the trials, and not on all inputs and weights: {wrong.message}"
    return Ruled(Status.FRAGILE, "WrongOutput", message, wrong.evidence)


def affine_trial(hearing: Hearing) -> bool:
    """Have both sides take the weights that are timed, and try them once; say whether that was done.

    They have scales that are not one and biases that are not zero. A slow kernel that takes the reference's
    is spared the trial: each of its timed calls is looked at.
    """
    alignment = _take_weights(hearing, hearing.stand.deal.variant)
    hearing.was_spared = _is_surely_slow(hearing) and alignment != "unlike"
    if hearing.was_spared:
        return False
    try:
        panel_trial(hearing, "upstream")
    except Ruled as ruled:
        if alignment != "unlike" or ruled.name != "WrongOutput":
            raise
        message = (
            f"its parameters are not the reference's by name or order, and with other weights {ruled.message}"
        )
        raise Ruled(Status.QUARANTINED, "WeightsNotShared", message, ruled.evidence) from ruled
    return True


def _take_weights(hearing: Hearing, variant: str) -> str:
    """Have both sides take other weights; say whether the candidate has the reference's."""
    stand = hearing.stand
    stand.build_reference(variant, stand.weights.drawn_on)
    hearing.ask(Op.CONSTRUCT, **stand.weights.construction())
    return stand.weights.align(hearing.require_side(), hearing.left_s())


def trial(hearing: Hearing, distribution: str, seed: int) -> None:
    """One forward call of each side on the same fresh inputs."""
    stand, side = hearing.stand, hearing.require_side()
    stand.inputs.put(0, lambda: stand.source.draw(seed, distribution))
    call_seed = secret_draws.seed()
    start = time.perf_counter()
    expected = stand.expect(0, call_seed)
    expected_s = time.perf_counter() - start
    if stand.says_nothing(distribution, expected):
        return
    side.buffers["inputs"].publish()
    stand.device.settle()
    poison = 0 if "poison" in stand.settings.switched_off else max(stand.outputs.nbytes, 1 << 20)
    start = time.perf_counter()
    reply = hearing.ask(Op.CALL, at=0, seed=call_seed, poison=poison, strict=False)
    hearing.note_call(1e3 * (time.perf_counter() - start - expected_s))
    facts = {"distribution": distribution, "seed": seed, "call_seed": call_seed}
    facts |= stand.weights.facts()
    if not stand.manners.mutates and stand.inputs.differ(0):
        raise Ruled(
            Status.REJECTED, INPUT_CHANGED, "forward changed its inputs", {"violation": "input", **facts}
        )
    _check_claims(stand, reply, facts)
    stand.scramble(side)
    side.deliver([0], [stand.outputs.slot(0)], hearing.left_s())
    stand.spare(side, hearing.left_s())
    check_values(hearing, expected, stand.outputs.read(side), facts)


def check_values(
    hearing: Hearing, expected: list[torch.Tensor], found: list[torch.Tensor], facts: dict[str, Any]
) -> None:
    """Compare outputs; where the first tolerance fails, ask what rounding alone does before ruling.

    Where rounding alone moves the reference so far that nothing can be asked of a kernel, nothing is.
    `facts` says by which distribution and seed the inputs were drawn.
    """
    stand, distribution = hearing.stand, facts["distribution"]
    is_kept = False
    for at, given in enumerate(found):
        tolerance = compare.tolerance_of(expected[at], stand.settings.precision, distribution)
        result = compare.compare(expected[at], given, tolerance)
        if not result.passes:
            if not is_kept:
                # To weigh rounding the reference runs again, and gives other outputs in their place.
                expected, is_kept = [tensor.clone() for tensor in expected], True
            weighed = weigh(expected[at], given, tolerance, _probe(stand, at, facts))
            if weighed is None:
                continue
            result, tolerance = weighed
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
                    "absolute": tolerance.absolute,
                    "relative": tolerance.relative,
                    "allowed": tolerance.allowed(result.expected),
                }
            }
            message = (
                f"output {at} at flat index {result.index}: expected {result.expected:.7g}, "
                f"found {result.found:.7g} ({distribution} inputs, {result.worst:.3g} times the tolerance)"
            )
            raise Ruled(Status.MISMATCH, "WrongOutput", message, evidence)


def _probe(stand: Stand, output: int, facts: dict[str, Any]) -> Callable[[int], tuple[Allowance, bool]]:
    """What rounding allows an output, the dearest probe last: float64 near each element, again and again."""
    probes = chain([(None, False), (facts["seed"], False)], repeat((facts["seed"], True)))

    def probe(near: int) -> tuple[Allowance, bool]:
        seed, exact = next(probes)
        found = stand.rounding.allowances(facts["distribution"], seed, near=near, exact=exact)
        return found[output], exact

    return probe


def _check_claims(stand: Stand, reply: Reply, facts: dict[str, Any]) -> None:
    if "format" in stand.settings.switched_off:
        return
    if reply.text != stand.outputs.structure or len(reply.leaves) != len(stand.outputs.leaves):
        message = f"the output's structure must be {stand.outputs.structure}, got {reply.text[:200]}"
        raise Ruled(Status.MISMATCH, "WrongStructure", message)
    for at, (claim, leaf) in enumerate(zip(reply.leaves, stand.outputs.leaves, strict=True)):
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
    if reply.count and not stand.manners.aliases:
        # Inputs are overwritten before outputs are compared: it would be told that it gave NaN.
        message = f"outputs in the memory of an input must be 0, got {reply.count}: return a new tensor"
        raise Ruled(Status.MISMATCH, OUTPUT_IN_INPUT, message, {"violation": "type", **facts})
