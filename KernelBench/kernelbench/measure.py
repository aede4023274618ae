"""The paired measurement: fresh inputs, a batch of each side, and a look at what the timed calls gave.

The time that counts is the oracle's. Work put off until an output is asked for is charged where it shows.
"""

from __future__ import annotations

import math
import random
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelbench import pairing
from kernelbench.bench import Bench, Side
from kernelbench.frames import Op

HALF_WIDTH = 0.005
"""Timing stops when the 95 % interval of the speedup is within this, relative, to either side."""

BUDGET_S = {"cuda": 0.6, "cpu": 2.0}
MAX_ROUNDS = 40
OUT_OF_TIME_S = 5.0
DEFERRED_MS = 0.05
VERIFIED_SHARE = 0.2
MAX_VERIFIED = 8
CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How far the two clocks may be apart; a CPU shares its time with everything else on the machine."""

_FLUSH_BYTES = 256 << 20

Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]

_secret = random.SystemRandom()


@dataclass
class Measurement:
    """What the rounds gave. `suspicion` names a disagreement that a person should look at."""

    rounds: list[pairing.Round] = field(default_factory=list)
    lateness_ms: list[float] = field(default_factory=list)
    deferred_ms: float = 0.0
    single_ms: float = 0.0
    calls: int = 1
    labels: list[str] = field(default_factory=list)
    suspicion: tuple[str, str] | None = None

    def fields(self) -> dict[str, Any]:
        """The row's fields."""
        counted = [_slower(r) for r in self.rounds]
        ratio, interval = pairing.speedup(counted)
        claim = statistics.median(r.candidate_claim_ms for r in self.rounds)
        return {
            "runtime_ms": pairing.timing([r.candidate_ms for r in counted]),
            "reference_ms": pairing.timing([r.reference_ms for r in counted]),
            "speedup": ratio,
            "speedup_ci95": interval,
            "second_clock_ms": claim,
            "clock_disagreement": abs(claim - self.slope_ms()) / self.slope_ms(),
        }

    def slope_ms(self) -> float:
        """The candidate's milliseconds a call by the oracle's clock."""
        return statistics.median(r.candidate_ms for r in self.rounds)

    def evidence(self) -> dict[str, Any]:
        """The numbers behind a suspicion."""
        return {
            "oracle_ms": self.slope_ms(),
            "claimed_ms": statistics.median(r.candidate_claim_ms for r in self.rounds),
            "deferred_ms": self.deferred_ms,
            "single_call_ms": self.single_ms,
            "calls_a_batch": self.calls,
        }


def measure(bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier) -> Measurement:
    """Run rounds until the interval is tight or the time is spent; `verify` raises on a wrong output."""
    found = Measurement(calls=bench.sets)
    sides = [bench.reference, side]
    _refill(bench)
    for each in sides:
        for _ in range(2):
            bench.per_call(each, list(range(bench.sets)), 0, left_s())
    deadline = time.monotonic() + BUDGET_S[bench.device]
    while len(found.rounds) < MAX_ROUNDS:
        found.rounds.append(_round(bench, side, left_s, verify, found))
        if pairing.is_tight(found.rounds, HALF_WIDTH):
            break
        spent = time.monotonic() > deadline or left_s() < OUT_OF_TIME_S
        if spent and len(found.rounds) >= pairing.MIN_ROUNDS:
            break
    _charge_deferred(found)
    _judge_single(bench, side, left_s, found)
    _judge_clocks(found, bench.device)
    return found


def _round(
    bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier, found: Measurement
) -> pairing.Round:
    seed = _refill(bench)
    order = list(range(bench.sets))
    _secret.shuffle(order)
    times: dict[int, tuple[float, float]] = {}
    pair = [(0, bench.reference), (1, side)]
    _secret.shuffle(pair)
    for which, each in pair:
        _flush(bench)
        times[which] = bench.per_call(each, order, seed, left_s())
    found.lateness_ms += _verify(bench, side, order, seed, left_s, verify)
    return pairing.Round(
        reference_ms=times[0][0],
        candidate_ms=times[1][0],
        reference_claim_ms=times[0][1],
        candidate_claim_ms=times[1][1],
    )


def _verify(
    bench: Bench, side: Side, order: list[int], seed: int, left_s: Callable[[], float], verify: Verifier
) -> list[float]:
    """Compare some of the batch's outputs, chosen now; give by how many milliseconds each came late."""
    count = min(MAX_VERIFIED, math.ceil(VERIFIED_SHARE * len(order)))
    chosen = _secret.sample(range(len(order)), count)
    if "timed_outputs" in bench.settings.switched_off:
        return []
    lateness: list[float] = []
    for index in chosen:
        ours = _deliver(bench, bench.reference, index, left_s())
        theirs = _deliver(bench, side, index, left_s())
        lateness.append(theirs - ours)
        facts = {"distribution": "upstream", "seed": seed, "call": index, "set": order[index]}
        floors = len(bench.floors)
        verify(bench.read_outputs(bench.reference), bench.read_outputs(side), facts)
        if len(bench.floors) != floors:
            break  # the reference ran to measure its rounding: its outputs of this batch are gone
    return lateness


def _deliver(bench: Bench, side: Side, index: int, left_s: float) -> float:
    bench.settle()
    start = time.perf_counter()
    side.ask(Op.DELIVER, left_s, index=index, offsets=bench.output_offsets)
    return (time.perf_counter() - start) * 1e3


def _refill(bench: Bench) -> int:
    """Fresh inputs in every set, at the same addresses; give the seed of the first."""
    seed = secrets.randbits(48)
    for at in range(bench.sets):
        bench.put(at, bench.source.draw(seed + at))
    for buffers in (bench.reference.buffers, bench.candidate_buffers):
        buffers["inputs"].publish()
    return seed


def _flush(bench: Bench) -> None:
    """Push everything out of the L2 cache."""
    if bench.device == "cuda":
        torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda").zero_()


def _charge_deferred(found: Measurement) -> None:
    """Add to every call what the process surely does only when asked for an output: lateness beyond chance."""
    if len(found.lateness_ms) < pairing.MIN_ROUNDS:
        return
    low, _ = pairing.median_interval(found.lateness_ms)
    if low > DEFERRED_MS:
        found.deferred_ms = low
        found.labels.append("deferred-work")
        found.rounds = [replace(r, candidate_ms=r.candidate_ms + low) for r in found.rounds]


def _judge_single(bench: Bench, side: Side, left_s: Callable[[], float], found: Measurement) -> None:
    """A call alone must not cost far more than a call among many: else one call did the work of all."""
    if bench.sets < 4:
        return
    singles = {
        name: min(bench.per_call(each, [_secret.randrange(bench.sets)], 0, left_s())[0] for _ in range(3))
        for name, each in (("reference", bench.reference), ("candidate", side))
    }
    found.single_ms = singles["candidate"]
    honest = max(3 * singles["reference"], 3 * found.slope_ms()) + 0.2
    if found.single_ms > honest and found.single_ms > 0.5 * found.slope_ms() * bench.sets:
        message = f"a single call takes {found.single_ms:.4f} ms, a call in a batch {found.slope_ms():.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def _judge_clocks(found: Measurement, device: str) -> None:
    slope = found.slope_ms()
    claim = statistics.median(r.candidate_claim_ms for r in found.rounds)
    if abs(slope - claim) > max(CLOCK_SHARE[device] * slope, CLOCK_MS[device]):
        message = f"the oracle's clock says {slope:.5f} ms a call, the process says {claim:.5f} ms"
        found.suspicion = ("ClocksDisagree", message)


def _slower(r: pairing.Round) -> pairing.Round:
    """The slower of the two clocks counts, on both sides."""
    return pairing.Round(
        reference_ms=max(r.reference_ms, r.reference_claim_ms),
        candidate_ms=max(r.candidate_ms, r.candidate_claim_ms),
        reference_claim_ms=r.reference_claim_ms,
        candidate_claim_ms=r.candidate_claim_ms,
    )
