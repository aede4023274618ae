"""The paired measurement: fresh inputs, a batch of each side, and a look at what the timed calls gave.

Both sides say what their own clock saw; the oracle's clock runs beside. The candidate's word counts as long
as the oracle's clock bears it out, and the oracle's time counts where it does not. Work put off until an
output is asked for is charged where it shows.
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

BUDGET_S = {"cuda": 0.9, "cpu": 2.0}
MAX_ROUNDS = 60
OUT_OF_TIME_S = 5.0
VERIFIED_SHARE = 0.2
MAX_VERIFIED = 8

BORNE_OUT_SHARE, BORNE_OUT_MS = 0.01, 0.04
"""Within this share, or these milliseconds a batch, the oracle's clock bears the candidate's out."""

CLOCK_SHARE = {"cuda": 0.05, "cpu": 0.3}
CLOCK_MS = {"cuda": 0.02, "cpu": 1.0}
"""How much less than the oracle's a claim may be before a person should look; a CPU is shared with others."""

SLOWED_SHARE = 0.25
DEFERRED_MS = 0.05
_FLUSH_BYTES = 256 << 20

Verifier = Callable[[list[torch.Tensor], list[torch.Tensor], dict[str, Any]], None]

_secret = random.SystemRandom()


@dataclass
class Measurement:
    """What the rounds gave. `suspicion` names a disagreement that a person should look at."""

    calls: int
    rounds: list[pairing.Round] = field(default_factory=list)
    lateness_ms: list[float] = field(default_factory=list)
    deferred_ms: float = 0.0
    single_ms: float = 0.0
    labels: list[str] = field(default_factory=list)
    suspicion: tuple[str, str] | None = None

    @property
    def claimed_ms(self) -> float:
        """The candidate's milliseconds a call by its own clock."""
        return statistics.median(r.candidate_ms for r in self.rounds)

    @property
    def oracle_ms(self) -> float:
        """The candidate's milliseconds a call by the oracle's clock."""
        return max(pairing.oracle_ms(self.rounds), 1e-6)

    def fields(self) -> dict[str, Any]:
        """The row's fields."""
        factor = self._correction()
        counted = [
            replace(
                r, candidate_ms=(r.candidate_ms * factor if factor else self.oracle_ms) + self.deferred_ms
            )
            for r in self.rounds
        ]
        ratio, interval = pairing.speedup(counted)
        return {
            "runtime_ms": pairing.timing([r.candidate_ms for r in counted]),
            "reference_ms": pairing.timing([r.reference_ms for r in counted]),
            "speedup": ratio,
            "speedup_ci95": interval,
            "second_clock_ms": self.oracle_ms,
            "clock_disagreement": abs(self.claimed_ms - self.oracle_ms) / self.oracle_ms,
        }

    def evidence(self) -> dict[str, Any]:
        """The numbers behind a suspicion."""
        return {
            "oracle_ms": self.oracle_ms,
            "claimed_ms": self.claimed_ms,
            "deferred_ms": self.deferred_ms,
            "single_call_ms": self.single_ms,
            "calls_a_batch": self.calls,
        }

    def _correction(self) -> float:
        """By how much to stretch the candidate's times; 0 where its clock said nothing at all."""
        allowed = self.claimed_ms * (1 + BORNE_OUT_SHARE) + BORNE_OUT_MS / self.calls
        if self.oracle_ms <= allowed:
            return 1.0
        return self.oracle_ms / self.claimed_ms if min(r.candidate_ms for r in self.rounds) > 0 else 0.0


def measure(bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier) -> Measurement:
    """Run rounds until the interval is tight or the time is spent; `verify` raises on a wrong output."""
    found = Measurement(calls=bench.sets)
    _refill(bench)
    for each in (bench.reference, side):
        for _ in range(2):
            bench.run_batch(each, list(range(bench.sets)), 0, left_s())
    deadline = time.monotonic() + BUDGET_S[bench.device]
    while len(found.rounds) < MAX_ROUNDS:
        found.rounds.append(_round(bench, side, left_s, verify, found))
        if min(r.candidate_ms for r in found.rounds) > 0 and pairing.is_tight(found.rounds, HALF_WIDTH):
            break
        spent = time.monotonic() > deadline or left_s() < OUT_OF_TIME_S
        if spent and len(found.rounds) >= pairing.MIN_ROUNDS:
            break
    _charge_deferred(found)
    _judge_reference(bench, side, found)
    _judge_single(bench, side, left_s, found)
    _judge_clocks(bench, found)
    return found


def _round(
    bench: Bench, side: Side, left_s: Callable[[], float], verify: Verifier, found: Measurement
) -> pairing.Round:
    """Both sides on the same inputs: first one, then the other, and for the second half the other way round.

    After which half outputs are looked at is secret, so that no call is safe to leave out.
    """
    seed = _refill(bench)
    order = list(range(bench.sets))
    _secret.shuffle(order)
    half = len(order) // 2
    halves = [order[:half], order[half:]] if half else [order]
    pair = [bench.reference, side]
    _secret.shuffle(pair)
    looked_at = _secret.randrange(len(halves))
    spent = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for number, part in enumerate(halves):
        for each in pair:
            _flush(bench)
            wall, claimed = _run(bench, each, part, seed, left_s())
            spent[each.trusted][0] += wall
            spent[each.trusted][1] += claimed
        pair.reverse()
        if number == looked_at:
            found.lateness_ms += _verify(bench, side, part, seed, left_s, verify)
    calls = len(order)
    return pairing.Round(
        reference_ms=spent[True][1] / calls,
        candidate_ms=spent[False][1] / calls,
        reference_wall_ms=spent[True][0] / calls,
        candidate_wall_ms=spent[False][0] / calls,
    )


def _run(bench: Bench, side: Side, order: list[int], seed: int, left_s: float) -> tuple[float, float]:
    """Milliseconds of a batch by the oracle's clock and by the side's own.

    The empty batch before brings the side's context back onto the device, which takes a while of its own.
    """
    bench.run_batch(side, [], seed, left_s)
    return bench.run_batch(side, order, seed, left_s)


def _verify(
    bench: Bench, side: Side, order: list[int], seed: int, left_s: Callable[[], float], verify: Verifier
) -> list[float]:
    """Compare some of the batch's outputs, chosen now; give by how many milliseconds each came late."""
    if "timed_outputs" in bench.settings.switched_off:
        return []
    count = min(MAX_VERIFIED, math.ceil(VERIFIED_SHARE * len(order)))
    lateness: list[float] = []
    for index in _secret.sample(range(len(order)), count):
        ours = _deliver(bench, bench.reference, index, left_s())
        theirs = _deliver(bench, side, index, left_s())
        lateness.append(theirs - ours)
        facts = {"distribution": "upstream", "seed": seed + order[index], "call": index}
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
    """Charge every call what is surely done only when an output is asked for: lateness beyond chance."""
    if len(found.lateness_ms) < pairing.MIN_ROUNDS:
        return
    low, _ = pairing.median_interval(found.lateness_ms)
    if low > DEFERRED_MS:
        found.deferred_ms = low
        found.labels.append("deferred-work")


def _judge_reference(bench: Bench, side: Side, found: Measurement) -> None:
    """The reference must not be slower beside the candidate than alone: somebody else would be at work.

    What looks slow is measured once more with the candidate stopped, since the machine itself may have slowed.
    """
    if bench.device == "cpu":
        return
    beside = statistics.median(r.reference_ms for r in found.rounds)
    allowed = (1 + SLOWED_SHARE) * bench.alone_ms + CLOCK_MS[bench.device]
    if beside <= allowed:
        return
    with side.process.paused():
        alone = bench.measure_alone()
    if beside > (1 + SLOWED_SHARE) * alone + CLOCK_MS[bench.device]:
        message = f"the reference takes {alone:.4f} ms alone and {beside:.4f} ms beside the candidate"
        found.suspicion = ("ReferenceSlowed", message)


def _judge_single(bench: Bench, side: Side, left_s: Callable[[], float], found: Measurement) -> None:
    """A call alone must not cost far more than a call among many: else one call did the work of all."""
    if bench.sets < 4:
        return

    def alone(each: Side) -> float:
        return min(_run(bench, each, [_secret.randrange(bench.sets)], 0, left_s())[0] for _ in range(3))

    singles = {each.trusted: alone(each) for each in (bench.reference, side)}
    found.single_ms = singles[False]
    honest = max(3 * singles[True], 3 * found.oracle_ms) + 0.2
    if found.single_ms > honest and found.single_ms > 0.5 * found.oracle_ms * bench.sets:
        message = f"a call alone takes {found.single_ms:.4f} ms, a call in a batch {found.oracle_ms:.4f} ms"
        found.suspicion = ("WorkSharedBetweenCalls", message)


def _judge_clocks(bench: Bench, found: Measurement) -> None:
    oracle, claim = found.oracle_ms, found.claimed_ms
    if oracle - claim > max(CLOCK_SHARE[bench.device] * oracle, CLOCK_MS[bench.device]):
        message = f"the oracle's clock says {oracle:.5f} ms a call, the process says {claim:.5f} ms"
        found.suspicion = ("ClocksDisagree", message)
